/* SPDX-License-Identifier: MIT */
/* A library that allocates when it is linked: in the resolver of an indirect function, for
 * which the dynamic linker asks before it has relocated the program. */
#include <stdlib.h>
#include <unistd.h>

static int answer(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	static const char done[] = "allocated in a resolver\n";
	void *p = malloc(100);

	if (!p || write(STDERR_FILENO, done, sizeof(done) - 1) < 0)
		_exit(3);
	return answer;
}

static int indirect(void) __attribute__((ifunc("resolve")));

/* A pointer makes the linker ask at once, after it has found the functions that the resolver
 * calls. */
int (*volatile indirect_pointer)(void) = indirect;
