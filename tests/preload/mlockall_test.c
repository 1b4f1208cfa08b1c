/* SPDX-License-Identifier: MIT */
/* A program without privileges, which may lock 8 MiB, locks its future memory before its first
 * request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "preload_test.h"

int main(void)
{
	const struct rlimit limit = { 8 << 20, 8 << 20 };
	size_t sum = 0;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit: %s", strerror(errno));
	/* For root the limit does not hold. */
	if (!geteuid())
		CHECK(!setgid(65534) && !setuid(65534), "setuid: %s", strerror(errno));
	CHECK(!mlockall(MCL_FUTURE), "mlockall: %s", strerror(errno));
	while (sum < 2 << 20) {
		CHECK(malloc(1000), "after %zu bytes: %s", sum, strerror(errno));
		sum += 1000;
	}
	puts("done");
	return 0;
}
