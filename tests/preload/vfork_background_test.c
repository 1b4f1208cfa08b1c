/* SPDX-License-Identifier: MIT */
/*
 * A child of vfork leaves much memory to give back. It must not create a thread that does so:
 * it would be the child's, and end with it, and its parent would wait for it in vain.
 *
 *	vfork_background_test [confined]
 *
 * confined: the child renounces new privileges, as before a filter of system calls. Under a
 * filter the library creates no thread; but the parent has none.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "library_thread.h"

enum { MIB = 1 << 20, BLOCK = 200 * MIB, WAIT_MS = 20000 };

/* No stdio: it would allocate, which gives memory back, too. */
static size_t resident(void)
{
	char text[64] = "";
	char *second = text;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	CHECK(read(fd, text, sizeof(text) - 1) > 0, "/proc/self/statm");
	close(fd);
	strtoul(text, &second, 10);
	return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static bool confined;

__attribute__((noinline, noreturn)) static void run_child(char *block)
{
	if (confined)
		CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul) &&
			      !prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul),
		      "prctl");
	free(block);
	for (size_t i = 0; i < 16; i++)
		free(malloc(MIB));
	_exit(0);
}

static pid_t start_child(char *block)
{
	pid_t pid = vfork();

	if (!pid)
		run_child(block);
	return pid;
}

static void *wait_for_end(void *unused)
{
	pause();
	return unused;
}

int main(int argc, char **argv)
{
	char *block = malloc(BLOCK);
	unsigned int ms = 0;
	pthread_t thread;
	int status = -1;

	(void)argv;
	confined = argc > 1;
	CHECK(block, "no memory");
	memset(block, 1, BLOCK);
	CHECK(!pthread_create(&thread, NULL, wait_for_end, NULL), "no thread");
	CHECK(waitpid(start_child(block), &status, 0) > 0 && !status, "the child: %#x",
	      (unsigned int)status);
	if (confined) {
		wait_for_library_thread(2, BLOCK);
		puts("the parent is not confined");
		return 0;
	}
	/* This request makes the library start a thread that gives the memory back. From here
	 * on the program stands still. */
	free(malloc(MIB));
	for (; resident() > BLOCK / 2; ms += 10) {
		CHECK(ms < WAIT_MS, "%zu bytes stay resident", resident());
		usleep(10000);
	}
	puts("given back");
	return 0;
}
