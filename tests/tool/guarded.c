/* SPDX-License-Identifier: MIT */
/*
 * Reads a guarded block after its free; see decode_test.py. With -DLIBRARY it is the library in
 * which that happens, else the program that calls it.
 */
#ifdef LIBRARY
#include <malloc.h>
#include <stdlib.h>

static volatile char sink;

static char *take(size_t n)
{
	return malloc(n); /* allocated */
}

static void give_back(char *p)
{
	free(p); /* freed */
}

static void use(const volatile char *p)
{
	sink = 0;
	sink = *p; /* used */
}

/* A guarded block has the size that was asked for. */
int try_once(void)
{
	/* Calls that no compiler makes one of. */
	char *(*volatile make)(size_t) = take;
	void (*volatile end)(char *) = give_back;
	void (*volatile look)(const volatile char *) = use;
	char *p = make(61);

	if (!p || malloc_usable_size(p) != 61)
		return 0;
	end(p);
	look(p);
	return 1;
}
#else
#include <time.h>

int try_once(void);

int main(void)
{
	time_t start = time(NULL);

	while (time(NULL) - start < 60)
		for (int i = 0; i < 1000; i++)
			if (try_once())
				return 0;
	return 1;
}
#endif
