/* SPDX-License-Identifier: MIT */
/* Prints how per-CPU data is reached in this process, and tries it out. */
#include <stdio.h>

#include "ukmem/percpu.h"

static DEFINE_PER_CPU(long, counter);

int main(void)
{
	struct ukmem_percpu_info info;

	for (int i = 0; i < 1000; i++)
		this_cpu_inc(counter);
	percpu_mode(&info);
	printf("%s|%s|%s|%s|%ld", info.mode_name, info.index_kind, info.reason, info.self_test,
	       per_cpu_sum(counter));
	return 0;
}
