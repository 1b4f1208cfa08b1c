/* SPDX-License-Identifier: MIT */
/*
 * A program whose clock_gettime() allocates and tells another time, as libfaketime's does. The
 * drop-in looks at a clock during the first request and in many later ones, and must not look
 * at this one.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "slow_paths.h"

static unsigned long looks;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	void *p = malloc(100);

	looks++;
	CHECK(p, "no memory");
	free(p);
	if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	now->tv_sec -= 86400;
	return 0;
}

int main(void)
{
	struct timespec now;
	time_t real = time(NULL);

	use_slow_paths();
	CHECK(!looks, "the library called clock_gettime() %lu times", looks);
	/* So it can be called from elsewhere, and this file has the one that is. */
	CHECK(!clock_gettime(CLOCK_REALTIME, &now) && looks == 1, "%lu calls", looks);
	CHECK(now.tv_sec < real - 80000, "the clock is the system's");
	verify_library();
	return 0;
}
