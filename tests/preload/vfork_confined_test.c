/* SPDX-License-Identifier: MIT */
/*
 * Children of vfork that confine themselves, as before a filter of system calls. A child shares
 * the library's state with its parent, but not its filter.
 *
 *	vfork_confined_test own	   a process has a filter, and then a child of vfork
 *	vfork_confined_test clone  the same, where no handler of fork ran
 *	vfork_confined_test nested the same, where the process is itself a child of vfork
 *	vfork_confined_test two	   two threads have such children at once
 *	vfork_confined_test fork   a process is forked meanwhile
 *	vfork_confined_test wish   a child finds that its parent wants a thread
 *
 * The first three end by SIGSYS if the library asks for what the filter forbids. In the others
 * the library creates a thread if the process is not confined.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "library_thread.h"
#include "seccomp_filter.h"

enum { MIB = 1 << 20, BLOCK = 200 * MIB, CHILD_MS = 300 };

static volatile bool may_end;

static void work(void)
{
	static void *volatile block[1000];

	for (size_t round = 0; round < 20; round++) {
		for (size_t i = 0; i < 1000; i++)
			block[i] = malloc(100 + i * 7);
		for (size_t i = 0; i < 1000; i++)
			free(block[i]);
	}
}

static void confine(void)
{
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul), "prctl");
}

static void install(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER,   KILL(membarrier),
					KILL(mincore), KILL(sched_getaffinity),
					KILL(openat),  ANSWER(SECCOMP_RET_ALLOW) };

	CHECK(INSTALL(filter), "no seccomp");
}

static void wait_for(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child && !status, "a child's status: %#x",
	      (unsigned int)status);
}

__attribute__((noinline, noreturn)) static void end(void)
{
	_exit(0);
}

static void have_child(void)
{
	pid_t child = vfork();

	if (!child)
		end();
	wait_for(child);
}

__attribute__((noinline, noreturn)) static void run_filtered(void)
{
	install();
	have_child();
	work();
	malloc_trim(0);
	_exit(0);
}

__attribute__((noinline, noreturn)) static void run_confined(void)
{
	void *volatile block;

	confine();
	for (unsigned int ms = 0; ms < CHILD_MS; ms += 10) {
		block = malloc(MIB);
		free(block);
		usleep(10000);
	}
	for (unsigned int ms = 0; !may_end && ms < 20000; ms += 10)
		usleep(10000);
	_exit(0);
}

static void *have_confined_child(void *unused)
{
	pid_t child = vfork();

	if (!child)
		run_confined();
	wait_for(child);
	return unused;
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

static void filtered(const char *how)
{
	pid_t child = -1;

	if (!strcmp(how, "own"))
		child = fork();
	else if (!strcmp(how, "clone"))
		child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	else if (!strcmp(how, "nested"))
		child = vfork();
	if (!child)
		run_filtered();
	wait_for(child);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t thread[2];
	pid_t child;

	work();
	alarm(60);
	if (!strcmp(how, "two") || !strcmp(how, "fork")) {
		for (size_t i = 0; i < 2; i++)
			CHECK(!pthread_create(&thread[i], NULL, have_confined_child, NULL),
			      "no thread");
		usleep(CHILD_MS * 1000);
		child = strcmp(how, "fork") ? -1 : fork();
		if (!child) {
			wait_for_library_thread(1, 2 * BLOCK);
			_exit(0);
		}
		if (child > 0)
			wait_for(child);
		may_end = true;
		for (size_t i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
		wait_for_library_thread(1, 2 * BLOCK);
	} else if (!strcmp(how, "wish")) {
		may_end = true;
		have_confined_child(NULL);
		CHECK(!pthread_create(&thread[0], NULL, idle, NULL), "no thread");
		wait_for_library_thread(2, 2 * BLOCK);
	} else {
		filtered(how);
	}
	printf("%s: went on\n", how);
	return 0;
}
