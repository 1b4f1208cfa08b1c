/* SPDX-License-Identifier: MIT */
/*
 * A child of vfork leaves much memory to give back. It must not create a thread that does so:
 * it would be the child's, and end with it, and its parent would wait for it in vain.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "preload_test.h"

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

__attribute__((noinline, noreturn)) static void run_child(char *block)
{
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

int main(void)
{
	char *block = malloc(BLOCK);
	unsigned int ms = 0;
	pthread_t thread;
	int status = -1;

	CHECK(block, "no memory");
	memset(block, 1, BLOCK);
	CHECK(!pthread_create(&thread, NULL, wait_for_end, NULL), "no thread");
	CHECK(waitpid(start_child(block), &status, 0) > 0 && !status, "the child: %#x",
	      (unsigned int)status);
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
