/* SPDX-License-Identifier: MIT */
/* What the parts of the program share. */
#ifndef COMPAT_CHECK_H
#define COMPAT_CHECK_H

#include <linux/printk.h>
#include <linux/types.h>

extern int checks_failed;

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			pr_err("%s:%d: %s\n", __FILE__, __LINE__, #condition);                 \
			__atomic_fetch_add(&checks_failed, 1, __ATOMIC_RELAXED);               \
		}                                                                              \
	} while (0)

/* Marsaglia's xorshift. */
static inline u64 next_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

void check_basics(void);

#endif
