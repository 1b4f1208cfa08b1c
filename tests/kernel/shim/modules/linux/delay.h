/* SPDX-License-Identifier: MIT */
/* <linux/delay.h>, and the time of day, in nanoseconds. */
#ifndef KERNEL_SHIM_DELAY_H
#define KERNEL_SHIM_DELAY_H

#include <linux/types.h>

#include <time.h>
#include <unistd.h>

typedef s64 ktime_t;

static inline ktime_t ktime_get(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#define ktime_us_delta(later, earlier) (((later) - (earlier)) / 1000)
#define get_cycles() ((u64)ktime_get())
#define msleep(ms) usleep((ms)*1000u)
#define cond_resched() ((void)0)
#define schedule() sched_yield()

#endif
