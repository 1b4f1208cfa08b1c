/* SPDX-License-Identifier: MIT */
/*
 * The first request of a process initialises the library, whenever it comes.
 *
 *	first_request_test handler	a signal handler allocates while that happens
 *	first_request_test vfork	a child of vfork makes the first request
 *	first_request_test sandbox	a filter that kills comes first
 *	first_request_test chroot	the process leaves its root first
 *	first_request_test small|large	the process allocates 100 bytes, or 8 MiB, and ends
 *
 * No function that is called before the first request may allocate, so there is no stdio.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "preload_test.h"
#include "seccomp_filter.h"

enum { CHILDREN = 400, LARGE = 8 << 20, TRIES = 64 };

static volatile sig_atomic_t handled, refused;

static void allocate(int sig)
{
	void *p = malloc(40);

	(void)sig;
	refused += !p;
	free(p);
	handled++;
}

/* The first alarm comes up to 400 microseconds after the call; then they come one after the
 * other. */
static void alarm_during_first_request(int i)
{
	struct sigaction action = { .sa_handler = allocate };
	struct itimerval soon = { .it_value.tv_usec = 1 + i % 400, .it_interval.tv_usec = 20 };
	struct itimerval never = { 0 };
	void *p;

	CHECK(!sigaction(SIGALRM, &action, NULL), "sigaction");
	CHECK(!setitimer(ITIMER_REAL, &soon, NULL), "setitimer");
	for (int try = 0; try < TRIES || !handled; try++) {
		p = malloc(100);
		CHECK(p, "no memory");
		free(p);
	}
	CHECK(!setitimer(ITIMER_REAL, &never, NULL), "setitimer");
	CHECK(!refused, "%d of %d requests of a handler had no memory, child %d", (int)refused,
	      (int)handled, i);
}

static void in_child(void (*run)(int i), int i)
{
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0, "no child");
	if (!pid) {
		run(i);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status, "child %d: %#x", i,
	      (unsigned int)status);
}

static void handlers(void)
{
	for (int i = 0; i < CHILDREN; i++)
		in_child(alarm_during_first_request, i);
}

/* The first request is the child's, on the parent's memory. */
static __attribute__((noinline, noreturn)) void allocate_and_exit(void)
{
	void *p = malloc(100);

	_exit(!p);
}

/* What the library gave free memory back with, if it is there, is a thread. */
static unsigned int threads(void)
{
	char text[2048] = "", *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	CHECK(read(fd, text, sizeof(text) - 1) > 0, "/proc/self/status");
	close(fd);
	line = strstr(text, "Threads:");
	CHECK(line, "no line");
	return (unsigned int)strtoul(line + sizeof("Threads:"), NULL, 10);
}

/*
 * Only the process that initialised the library starts its thread. The program does not see
 * whether there is one; without the library there is one thread in any case.
 */
static void vfork_first(bool expect_thread)
{
	int status = -1;
	pid_t pid = vfork();
	void *p;

	if (!pid)
		allocate_and_exit();
	CHECK(waitpid(pid, &status, 0) == pid && !status, "child: %#x", (unsigned int)status);
	for (int i = 0; i < 2000 && threads() < 2 && expect_thread; i++) {
		p = malloc(LARGE);
		CHECK(p, "no memory");
		memset(p, 1, LARGE);
		free(p);
		usleep(5000);
	}
	CHECK(!expect_thread || threads() > 1, "the library starts no thread");
}

static bool forbid_files(void)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,	  KILL(openat),	   KILL(sched_getaffinity),
		KILL(membarrier), KILL(prlimit64), ANSWER(SECCOMP_RET_ALLOW),
	};

	return INSTALL(filter);
}

static void touch(size_t bytes)
{
	char *p = malloc(bytes);

	CHECK(p, "no memory");
	memset(p, 1, bytes);
	free(p);
}

/* The machine's memory, if the system refuses to promise more; 0: it refuses nothing. */
static size_t most_at_once(void)
{
	char policy = '1';
	struct sysinfo info;
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, &policy, 1) != 1 || policy != '0' || sysinfo(&info))
		return 0;
	close(fd);
	return (info.totalram + info.totalswap) * info.mem_unit;
}

/* What the system would refuse before a process locked itself in, the library refuses behind
 * that, too. */
static void request_much(size_t most)
{
	CHECK(!most || !malloc(2 * most), "more than there is");
	for (int n = 0; n < 16; n++)
		touch(LARGE);
}

static void sandboxed(int i)
{
	size_t most = most_at_once();

	(void)i;
	if (!forbid_files())
		return;
	touch(100);
	request_much(most);
}

static char root[] = "/tmp/ukmem-root-XXXXXX";

/* In a root without files a process is refused what it would be refused outside. */
static void rooted(int i)
{
	size_t most = most_at_once();

	(void)i;
	if (!most || (geteuid() && unshare(CLONE_NEWUSER)) || chroot(root) || chdir("/")) {
		CHECK(write(STDOUT_FILENO, "no other root here\n", 19) == 19, "write");
		return;
	}
	request_much(most);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "handler")) {
		handlers();
	} else if (!strcmp(mode, "vfork")) {
		vfork_first(argc > 2);
	} else if (!strcmp(mode, "sandbox")) {
		in_child(sandboxed, 0);
	} else if (!strcmp(mode, "chroot")) {
		CHECK(mkdtemp(root), "no directory");
		in_child(rooted, 0);
		CHECK(!rmdir(root), "rmdir");
	} else {
		touch(!strcmp(mode, "large") ? LARGE : 100);
	}
	verify_library();
	return 0;
}
