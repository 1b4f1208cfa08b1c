/* SPDX-License-Identifier: MIT */
/*
 * measured FD LIBRARY COMMAND...: runs a command with that library preloaded, "" for none, and
 * writes to the descriptor what it and all that it started have used: seconds elapsed, user and
 * system; the largest resident size in KiB; page faults. Ends as the command did.
 *
 * The kernel counts for a process the resident size that it had before exec: a driver in Python
 * cannot start programs that are smaller than itself and measure their size.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(long whole, long parts, double unit)
{
	return (double)whole + (double)parts / unit;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return seconds(time.tv_sec, time.tv_nsec, 1e9);
}

int main(int argc, char **argv)
{
	struct rusage used;
	double start;
	pid_t child;
	int status;

	if (argc < 4) {
		fprintf(stderr, "usage: measured FD LIBRARY COMMAND...\n");
		return 2;
	}
	start = now();
	child = fork();
	if (child == 0) {
		close(atoi(argv[1]));
		if (*argv[2])
			setenv("LD_PRELOAD", argv[2], 1);
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &used) != child) {
		perror("measured");
		return 1;
	}
	dprintf(atoi(argv[1]), "%.6f %.6f %.6f %ld %ld\n", now() - start,
		seconds(used.ru_utime.tv_sec, used.ru_utime.tv_usec, 1e6),
		seconds(used.ru_stime.tv_sec, used.ru_stime.tv_usec, 1e6), used.ru_maxrss,
		used.ru_minflt);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
