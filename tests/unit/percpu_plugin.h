/* SPDX-License-Identifier: MIT */
/* A shared library with static per-CPU variables of its own. */
#ifndef UNIT_PERCPU_PLUGIN_H
#define UNIT_PERCPU_PLUGIN_H

typedef void plugin_add_fn(long n);
typedef long plugin_sum_fn(void);
typedef void *plugin_handle_fn(void);

#endif
