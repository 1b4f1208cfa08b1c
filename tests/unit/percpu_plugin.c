/* SPDX-License-Identifier: MIT */
#include "percpu_plugin.h"

#include "ukmem/percpu.h"

static DEFINE_PER_CPU(long, count) = 1000;

plugin_add_fn plugin_add;
plugin_sum_fn plugin_sum;
plugin_handle_fn plugin_handle;

void plugin_add(long n)
{
	this_cpu_add(count, n);
}

long plugin_sum(void)
{
	return per_cpu_sum(count);
}

void *plugin_handle(void)
{
	return &count;
}
