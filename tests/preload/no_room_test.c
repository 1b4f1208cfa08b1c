/* SPDX-License-Identifier: MIT */
/* The first request of a program whose address space has no room for the library fails as
 * others do; with room the next one is served. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "preload_test.h"

/* Bytes of addresses that are in use. */
static rlim_t address_space(void)
{
	char text[100] = "";
	int fd = open("/proc/self/statm", O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "/proc/self/statm");
	close(fd);
	return strtoul(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(void)
{
	struct rlimit before, limit;
	void *volatile p = NULL;

	CHECK(!getrlimit(RLIMIT_AS, &before), "getrlimit");
	limit = before;
	limit.rlim_cur = address_space();
	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit: %s", strerror(errno));
	for (size_t size = 1 << 20; size < (size_t)64 << 20; size *= 2) {
		errno = 0;
		CHECK(!malloc(size) && errno == ENOMEM, "%zu bytes: %s", size, strerror(errno));
	}
	/* glibc's has a page or two without asking. */
	free(malloc(100));
	free(calloc(10, 100));
	free(realloc(NULL, 1000));
	free(NULL);
	CHECK(posix_memalign((void **)&p, 4096, 8 << 20) == ENOMEM, "posix_memalign");
	CHECK(!setrlimit(RLIMIT_AS, &before), "setrlimit: %s", strerror(errno));
	p = malloc(1 << 20);
	CHECK(p, "with room: %s", strerror(errno));
	memset(p, 1, 1 << 20);
	free(p);
	puts("done");
	return 0;
}
