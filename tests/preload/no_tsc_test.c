/* SPDX-License-Identifier: MIT */
/*
 * A program that forbids itself the processor's time stamp counter. malloc works, although the
 * vDSO's clock reads the counter (KFENCE, which guards an object in each millisecond here, asks
 * for the time in microseconds).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "slow_paths.h"

enum { SKIPPED = 77 };

int main(void)
{
	free(malloc(100000)); /* the library has looked for its clock */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) {
		CHECK(errno == EINVAL, "prctl: errno %d", errno);
		puts("skipped: this machine's counter cannot be forbidden");
		return SKIPPED;
	}
	use_slow_paths();
	verify_library();
	return 0;
}
