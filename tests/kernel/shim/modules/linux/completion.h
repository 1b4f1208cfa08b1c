/* SPDX-License-Identifier: MIT */
/* <linux/completion.h>: a count that threads wait for; HZ is 100. */
#ifndef KERNEL_SHIM_COMPLETION_H
#define KERNEL_SHIM_COMPLETION_H

#include <unistd.h>

#define HZ 100

struct completion {
	int done;
};

#define DECLARE_COMPLETION(name) struct completion name

static inline void complete(struct completion *c)
{
	__atomic_fetch_add(&c->done, 1, __ATOMIC_RELEASE);
}

/* Result: 0 if @jiffies passed; else those that were left, at least 1. */
static inline unsigned long wait_for_completion_timeout(struct completion *c,
							unsigned long jiffies)
{
	for (; !__atomic_load_n(&c->done, __ATOMIC_ACQUIRE); jiffies--) {
		if (!jiffies)
			return 0;
		usleep(1000000 / HZ);
	}
	__atomic_fetch_sub(&c->done, 1, __ATOMIC_ACQUIRE);
	return jiffies ? jiffies : 1;
}

#endif
