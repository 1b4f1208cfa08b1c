/* SPDX-License-Identifier: MIT */
/* What tests of queues under unusual circumstances share. */
#ifndef UNIT_QUEUE_UTIL_H
#define UNIT_QUEUE_UTIL_H

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "test_util.h"
#include "ukmem/ukmem.h"

constexpr uint32_t kSize = 16;

/* An element, not NULL. */
inline void *number(uintptr_t i)
{
	return reinterpret_cast<void *>(i + 1);
}

/* @body by a thread on @cpu. */
template <typename Body> void on_cpu(int cpu, Body body)
{
	std::thread([cpu, &body] {
		run_on(cpu);
		body();
	}).join();
}

/* What @body returns, in a child. Above 1000: the signal that ended it. */
template <typename Body> int in_child(Body body)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		int result;

		alarm(5); /* one that waits for ever */
		result = body();
		fflush(stdout);
		_exit(result);
	}
	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
