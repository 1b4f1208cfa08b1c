/* SPDX-License-Identifier: MIT */
/*
 * The main() of a test, which includes it last, as <support/test-driver.c> or
 * "../test-skeleton.c": calls its function, by default do_test(). A test that is stuck ends by
 * an alarm. What a test may say first, by macros: TEST_FUNCTION or TEST_FUNCTION_ARGV, PREPARE,
 * TIMEOUT, EXPECTED_STATUS, EXPECTED_SIGNAL. Of "../test-skeleton.c" TEST_FUNCTION is a call,
 * of the other a name; so suite.py defines SHIM_SKELETON before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

#ifndef TIMEOUT
#define TIMEOUT DEFAULT_TIMEOUT
#endif
#ifndef EXPECTED_STATUS
#define EXPECTED_STATUS 0
#endif
#ifndef EXPECTED_SIGNAL
#define EXPECTED_SIGNAL 0
#endif
/* Of a test that expects an end of its own the process is a child's. */
#define SHIM_FORKS (EXPECTED_STATUS || EXPECTED_SIGNAL)

static int shim_run(int argc, char **argv)
{
	(void)argc;
	(void)argv;
#ifdef PREPARE
	PREPARE(argc, argv);
#endif
	alarm(TIMEOUT * 5);
#if defined(TEST_FUNCTION_ARGV)
	return TEST_FUNCTION_ARGV(argc, argv);
#elif defined(TEST_FUNCTION) && defined(SHIM_SKELETON)
	return TEST_FUNCTION;
#elif defined(TEST_FUNCTION)
	return TEST_FUNCTION();
#else
	return do_test();
#endif
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	/* Tests that start themselves again with options of glibc's driver are none for this
	 * one. */
	if (argc > 1)
		return EXIT_UNSUPPORTED;
	setvbuf(stdout, NULL, _IONBF, 0);
	setbuf(stderr, NULL);
	if (!SHIM_FORKS)
		return support_report_failure(shim_run(argc, argv));
	child = fork();
	if (child == 0)
		exit(support_report_failure(shim_run(argc, argv)));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	if (EXPECTED_SIGNAL)
		return !(WIFSIGNALED(status) && WTERMSIG(status) == EXPECTED_SIGNAL);
	return !(WIFEXITED(status) && WEXITSTATUS(status) == EXPECTED_STATUS);
}
