/* SPDX-License-Identifier: MIT */
/*
 * A program confines itself by a filter that comes late. It allows what docs/programs.md lists.
 *
 *	confined_test kfence	KFENCE was to take the next object when the filter came
 *	confined_test stats	statistics, afterwards
 *	confined_test objects	objects, afterwards; for slab_debug
 *	confined_test crash	a fault kills, whatever the filter says of rt_sigaction
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "preload_test.h"
#include "seccomp_filter.h"

/* Of rt_sigaction: @action. */
static bool confine(unsigned int action)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,
		ALLOW_LISTED,
		ANSWER_TO(SYS_rt_sigaction, action),
		/* The test itself, and how a handler returns. */
		ALLOW(rt_sigreturn),
		ALLOW(write),
		ALLOW(exit_group),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
	};

	return INSTALL(filter);
}

static void use_objects(void)
{
	static void *p[200];

	for (size_t i = 0; i < 4000; i++) {
		free(p[i % 200]);
		p[i % 200] = malloc(i + 1);
		CHECK(p[i % 200], "%zu bytes", i + 1);
	}
}

/* Some time passes for KFENCE, and requests find that. */
static void let_gate_open(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		usleep(12000);
		for (size_t k = 0; k < 2; k++) {
			free(malloc(100000 + (size_t)i));
			CHECK(malloc(3000 + (size_t)i * 100), "a block");
		}
	}
}

static void in_child(const char *how, int rounds, unsigned int action)
{
	volatile int *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	free(malloc(10));
	let_gate_open(rounds);
	alarm(10);
	if (!confine(action))
		_exit(77);
	if (!strcmp(how, "stats"))
		malloc_stats();
	else if (!strcmp(how, "crash"))
		*closed = 1;
	use_objects();
	_exit(0);
}

/* Result: the child's status. */
static int run_child(const char *how, int rounds, unsigned int action)
{
	pid_t child = fork();
	int status = 0;

	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		in_child(how, rounds, action);
	}
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		puts("no seccomp here");
		exit(77);
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "kfence";
	int rounds = !strcmp(how, "kfence") || !strcmp(how, "crash") ? 8 : 1;

	/* Which round leaves the gate open depends on what came before. */
	for (int i = 1; i <= rounds; i++) {
		int status = run_child(how, i, SECCOMP_RET_KILL_PROCESS);

		if (!strcmp(how, "crash")) {
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
			      "killed: status %#x", status);
			status = run_child(how, i, ERROR(EPERM));
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
			      "refused: status %#x", status);
			continue;
		}
		CHECK(!status, "%s: status %#x after %d rounds", how, status, i);
	}
	puts("done");
	return 0;
}
