/* SPDX-License-Identifier: MIT */
/* The profile bounds what its samples cost; see cost.c. Any thread and any signal handler may
 * call these functions: they take no lock. */
#ifndef PROFILE_COST_H
#define PROFILE_COST_H

#include <stdint.h>

/* Begins a window. */
void cost_begin(void);
/* A sample was begun at @started, by os_calls.now_us(), and is finished. */
void cost_add(uint64_t started);

#endif
