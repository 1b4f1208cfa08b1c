/* SPDX-License-Identifier: MIT */
/*
 * The main function of a program that is one test module.
 *
 *	program [RESULT]	what the module's function should return: a number (0) or any
 *
 * A module that tests at its start often returns an error, so that it does not stay loaded.
 * With SHIM_OWNER the program owns its CPU, as code has it that disables preemption.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <ukmem/stats.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef SHIM_OWNER
#define SHIM_OWNER 0
#endif

int shim_module_init(void);
void shim_module_exit(void) __attribute__((__weak__));

int preempt_count;

static void own_cpu(void)
{
	cpu_set_t one;
	int error;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	error = sched_setaffinity(0, sizeof(one), &one) ? -EINVAL : percpu_owner_enter();
	if (error) { /* no rseq, for one */
		printf("SKIP: no owner of a CPU here: %d\n", error);
		exit(77);
	}
}

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "0";
	int result, findings;
	bool good;

	if (SHIM_OWNER)
		own_cpu();
	result = shim_module_init();
	if (shim_module_exit && !result)
		shim_module_exit();
	findings = ukmem_verify(stdout);
	good = !findings && (result == atoi(wanted) || !strcmp(wanted, "any"));
	printf("module: %d, %d findings: %s\n", result, findings, good ? "ok" : "FAILED");
	return !good;
}
