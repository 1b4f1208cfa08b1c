/* SPDX-License-Identifier: MIT */
/* Calls a function from a frame of FRAME bytes: unwind_test.cpp. */
void call(void (*function)(void))
{
	volatile char space[FRAME];

	/* Zeroes, where an old rule may look. */
	for (unsigned int i = 0; i < sizeof(space); i++)
		space[i] = 0;
	function();
	space[0] = space[1];
}
