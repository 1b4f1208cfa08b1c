/* SPDX-License-Identifier: MIT */
/*
 * Static per-CPU variables in a program and, with LIBRARY, in a library it is linked
 * with; built in every way programs are linked (CMakeLists.txt).
 */
#include <pthread.h>
#include <stdio.h>

#include "percpu_plugin.h"
#include "ukmem/percpu.h"

static DEFINE_PER_CPU(long, mine) = 10;

#ifdef LIBRARY
plugin_add_fn plugin_add;
plugin_sum_fn plugin_sum;
#endif

static void *count(void *unused)
{
	for (int i = 0; i < 100000; i++) {
		this_cpu_inc(mine);
#ifdef LIBRARY
		plugin_add(2);
#endif
	}
	return unused;
}

int main(void)
{
	long copies = (long)num_possible_cpus(), expected = 10 * copies + 300000;
	long *dynamic = alloc_percpu(long);
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, count, NULL))
			return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	this_cpu_add(*dynamic, 5);
	if (per_cpu_sum(mine) != expected || per_cpu_sum(*dynamic) != 5)
		return 2;
#ifdef LIBRARY
	if (plugin_sum() != 1000 * copies + 600000)
		return 3;
#endif
	puts("sums are exact");
	return 0;
}
