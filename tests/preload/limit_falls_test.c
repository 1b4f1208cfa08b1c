/* SPDX-License-Identifier: MIT */
/*
 * The drop-in in a control group whose memory limit falls while the program runs, below what
 * the program has retained. Nobody is killed.
 *
 *	limit_falls_test [trim]
 *
 * The parent makes a group inside its own, version 1 or 2, and a worker in it. The worker frees
 * 200 MiB, which stay resident (UKMEM_CONF=dirty_decay_ms:3600000), and then does little. The
 * parent asks for memory back: with memory.high, or in version 1, which has none and refuses a
 * limit below what there is, with a limit just above. When the worker has given its memory
 * back, the limit falls to 100 MiB, and the worker takes what it can get. Skipped where no such
 * group can be made.
 *
 * trim: the worker trims, and does nothing until the limit has fallen. When it grows again, to
 * less than it once had, it has to notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum {
	START_MIB = 320,
	RETAINED_MIB = 200,
	LIMIT_MIB = 100,
	SKIPPED = 77,
	PATIENCE_MS = 60000
};

static char group[4096];
static bool version_2;

static int fail(const char *what, size_t bytes)
{
	fprintf(stderr, "limit_falls_test: %s: %zu MiB\n", what, bytes / MIB);
	return 1;
}

static int skip(const char *why)
{
	printf("SKIP: %s\n", why);
	return SKIPPED;
}

/* 0 or errno. */
static int write_at(const char *folder, const char *file, const char *text)
{
	char path[4200];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return err;
}

static int set(const char *file, size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	return write_at(group, file, text);
}

static size_t usage(void)
{
	char path[4200], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group,
		 version_2 ? "memory.current" : "memory.usage_in_bytes");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		exit(fail("usage cannot be read", 0));
	close(fd);
	return strtoul(text, NULL, 10);
}

static int set_limit(size_t bytes)
{
	return set(version_2 ? "memory.max" : "memory.limit_in_bytes", bytes);
}

/* Makes a group with a limit in @folder. */
static bool make_group(const char *folder)
{
	if (version_2)
		write_at(folder, "cgroup.subtree_control", "+memory");
	snprintf(group, sizeof(group), "%.4000s/ukmem-limit-%d", folder, (int)getpid());
	if (mkdir(group, 0755))
		return false;
	if (!set_limit(START_MIB * MIB))
		return true;
	rmdir(group);
	return false;
}

/* Makes it where this process is. */
static bool make_own_group(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[3000], folder[4000];
	bool made = false;

	while (f && !made && fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		version_2 = !list[1];
		if (!version_2 && strcmp(list + 1, "memory"))
			continue;
		snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%s",
			 version_2 ? "" : "/memory", path);
		made = make_group(folder);
	}
	if (f)
		fclose(f);
	return made;
}

static void say(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(1);
}

static size_t fill(char **blocks, size_t n)
{
	size_t i = 0;

	while (i < n && (blocks[i] = malloc(MIB)))
		memset(blocks[i++], 1, MIB);
	return i;
}

extern int ukmem_malloc_trim(size_t pad) __attribute__((weak));

static int work(int in, int out, bool trims)
{
	static char *blocks[START_MIB];
	size_t n;
	char c;

	if (!ukmem_malloc_trim)
		return fail("the drop-in is not preloaded", 0);
	if (fill(blocks, RETAINED_MIB) != RETAINED_MIB)
		return fail("the beginning is refused", 0);
	for (size_t i = 0; i < RETAINED_MIB; i++)
		free(blocks[i]);
	if (trims)
		ukmem_malloc_trim(0);
	say(out);
	fcntl(in, F_SETFL, trims ? 0 : O_NONBLOCK);
	/* A program that does little, until the limit has fallen. */
	while (read(in, &c, 1) != 1) {
		void *volatile p = malloc(300000);

		free(p);
		usleep(20000);
	}
	n = fill(blocks, START_MIB);
	if (n >= LIMIT_MIB || n < LIMIT_MIB / 2)
		return fail("below the limit there were", n * MIB);
	return 0;
}

/* 0: the worker has given its memory back. */
static int ask_for_memory(void)
{
	size_t before = usage();
	int err;

	if (before < RETAINED_MIB * MIB * 3 / 4)
		return fail("too little is retained", before);
	err = version_2 ? set("memory.high", LIMIT_MIB * MIB) : set_limit(before + 8 * MIB);
	if (err)
		return fail(strerror(err), 0);
	for (int ms = 0; ms < PATIENCE_MS && usage() > LIMIT_MIB * MIB * 9 / 10; ms += 20)
		usleep(20000);
	return 0;
}

static int watch(pid_t pid, int in, int out, bool trims)
{
	int status, err;
	char c;

	if (read(in, &c, 1) != 1)
		return fail("the worker did not begin", 0);
	if (!trims && ask_for_memory())
		return 1;
	if (usage() > LIMIT_MIB * MIB)
		return fail("the worker keeps", usage());
	err = set_limit(LIMIT_MIB * MIB);
	if (err)
		return fail(strerror(err), 0);
	/* memory.high would only slow the worker down. */
	if (version_2)
		write_at(group, "memory.high", "max");
	say(out);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return fail("the worker was killed", usage());
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	bool trims = argc > 1 && !strcmp(argv[1], "trim");
	int to[2], from[2], result;
	pid_t pid;

	if (argc == 4)
		return work(atoi(argv[2]), atoi(argv[3]), trims);
	if (!make_own_group())
		return skip("no control group with a limit of memory can be made here");
	if (pipe(to) || pipe(from))
		return 1;
	pid = fork();
	if (!pid) {
		char in[16], out[16];

		snprintf(in, sizeof(in), "%d", to[0]);
		snprintf(out, sizeof(out), "%d", from[1]);
		close(to[1]);
		close(from[0]);
		/* The library begins inside the group. */
		if (!write_at(group, "cgroup.procs", "0"))
			execl("/proc/self/exe", argv[0], trims ? "trim" : "", in, out,
			      (char *)NULL);
		_exit(1);
	}
	close(to[0]);
	close(from[1]);
	result = watch(pid, from[0], to[1], trims);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* The group is empty a moment after its last process has ended. */
	for (int ms = 0; rmdir(group) && errno == EBUSY && ms < 5000; ms += 10)
		usleep(10000);
	return result;
}
