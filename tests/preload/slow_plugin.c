/* SPDX-License-Identifier: MIT */
/* A plugin whose constructor takes its time (replaced_test.cpp): the dynamic linker holds a
 * lock meanwhile. */
void plugin_starts(void);

__attribute__((constructor)) static void start(void)
{
	plugin_starts();
}
