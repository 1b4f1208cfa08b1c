/* SPDX-License-Identifier: MIT */
/*
 * What the process has mapped is what it uses: a limit of address space that the program
 * sets for itself bounds malloc and leaves others their part, and all memory can be locked.
 *
 *	address_space_test lowered | current | future | little
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "preload_test.h"

enum { MIB = 1 << 20, NOBODY = 65534 };

/* A line of /proc/self/status in KiB. */
static size_t status(const char *key)
{
	char text[8192];
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	const char *line;

	CHECK(n, "/proc/self/status");
	fclose(f);
	text[n] = '\0';
	line = strstr(text, key);
	CHECK(line, "%s", key);
	return strtoul(line + strlen(key), NULL, 10);
}

static void *nothing(void *unused)
{
	return unused;
}

static void start_thread(const char *when)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, nothing, NULL);

	CHECK(!err, "pthread_create %s: %s", when, strerror(err));
	pthread_join(thread, NULL);
}

/* Blocks of @size, written to, in a list, up to @most; how many. */
static size_t fill(void ***list, size_t most, size_t size)
{
	size_t n = 0;
	void **block;

	for (; n < most && (block = malloc(size)); n++) {
		memset(block, 1, size);
		*block = *list;
		*list = block;
	}
	return n;
}

static void empty(void **list)
{
	while (list) {
		void **next = *list;

		free(list);
		list = next;
	}
}

static void lowered(void)
{
	struct rlimit limit = { 200 * MIB, RLIM_INFINITY };
	void **list = NULL;
	size_t n;

	CHECK(malloc(100), "malloc");
	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit");
	start_thread("under a limit of 200 MiB");
	n = fill(&list, 1000, MIB);
	CHECK(n >= 100 && n < 200, "%zu MiB", n);
	CHECK(!malloc(100 * MIB), "100 MiB more");
	CHECK(errno == ENOMEM, "errno %d", errno);
	empty(list);
	list = NULL;
	CHECK(fill(&list, 1000, MIB) >= n * 9 / 10, "not again after %zu MiB", n);
	empty(list);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit");
	list = NULL;
	CHECK(fill(&list, 300, MIB) == 300, "not without a limit");
	start_thread("without a limit");
}

static void use(size_t mib)
{
	for (int round = 0; round < 3; round++) {
		void **list = NULL;

		CHECK(fill(&list, mib, MIB) == mib, "%zu MiB in round %d", mib, round);
		empty(list);
	}
}

/* Locks all memory as a user who may lock 128 MiB at most, or, where the test cannot become
 * that user, as the one it is. False: this user may not lock so much. */
static bool lock_all(int flags)
{
	struct rlimit limit = { (size_t)128 * MIB, (size_t)128 * MIB };
	bool may = !setrlimit(RLIMIT_MEMLOCK, &limit);

	if (may)
		CHECK(getuid() || !setuid(NOBODY), "setuid");
	if (!mlockall(flags))
		return true;
	CHECK(!may && (errno == EPERM || errno == ENOMEM), "mlockall: %s", strerror(errno));
	return false;
}

static void current(void)
{
	/* Each CPU has some for itself. */
	size_t most = (size_t)(16 + 4 * get_nprocs_conf()) * 1024;

	CHECK(malloc(100), "malloc");
	CHECK(status("VmSize:") <= most, "%zu KiB are mapped", status("VmSize:"));
	if (lock_all(MCL_CURRENT))
		CHECK(status("VmLck:") <= most, "%zu KiB are locked", status("VmLck:"));
	use(32);
}

static void future(void)
{
	CHECK(malloc(100), "malloc");
	if (lock_all(MCL_CURRENT | MCL_FUTURE))
		CHECK(status("VmLck:") > 0, "nothing is locked");
	use(32);
	malloc_trim(0); /* the system refuses to take back what is locked */
	use(48);
}

static void skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

/*
 * A user without rights, who may lock 8 MiB, as most systems have it by default, and what each
 * CPU beyond two has for itself.
 */
static void little(void)
{
	size_t cpus = (size_t)get_nprocs_conf(), most = 8 * MIB, used, n;
	struct rlimit limit;
	void **list = NULL;

	most += cpus > 2 ? (cpus - 2) * (MIB / 4) : 0;
	CHECK(!getrlimit(RLIMIT_MEMLOCK, &limit), "getrlimit");
	if (limit.rlim_max < most && getuid())
		skip("RLIMIT_MEMLOCK is too low");
	limit.rlim_cur = limit.rlim_max = most;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		skip("RLIMIT_MEMLOCK is too low");
	if (!getuid() && setuid(NOBODY))
		skip("nobody may not be had");
	CHECK(malloc(100), "malloc");
	CHECK(!mlockall(MCL_CURRENT), "mlockall(MCL_CURRENT): %s", strerror(errno));
	CHECK(!munlockall(), "munlockall");
	CHECK(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall(MCL_FUTURE): %s", strerror(errno));
	used = status("VmLck:") * 1024;
	CHECK(used && used < most, "%zu bytes are locked", used);
	n = fill(&list, 1000, 50000);
	CHECK(errno == ENOMEM, "errno %d", errno);
	CHECK(n * 50000 + used + MIB >= most, "%zu blocks beside %zu bytes", n, used);
	empty(list);
	list = NULL;
	CHECK(fill(&list, 1000, 50000) >= n * 9 / 10, "not again after %zu blocks", n);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = { { "lowered", lowered },
		      { "current", current },
		      { "future", future },
		      { "little", little } };

	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("%s: good\n", argv[1]);
			return 0;
		}
	return 2;
}
