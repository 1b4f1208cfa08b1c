/* SPDX-License-Identifier: MIT */
/*
 * <linux/kref.h> - counted references with a function for the last one.
 */
#ifndef UKMEM_COMPAT_LINUX_KREF_H
#define UKMEM_COMPAT_LINUX_KREF_H

#include <linux/refcount.h>
#include <linux/spinlock.h>

struct kref {
	refcount_t refcount;
};

static inline void kref_init(struct kref *k)
{
	refcount_set(&k->refcount, 1);
}

static inline unsigned int kref_read(const struct kref *k)
{
	return refcount_read(&k->refcount);
}

static inline void kref_get(struct kref *k)
{
	refcount_inc(&k->refcount);
}

static inline __must_check bool kref_get_unless_zero(struct kref *k)
{
	return refcount_inc_not_zero(&k->refcount);
}

/* Result: 1 if this was the last reference, after a call of @release; else 0. */
static inline int kref_put(struct kref *k, void (*release)(struct kref *k))
{
	if (!refcount_dec_and_test(&k->refcount))
		return 0;
	release(k);
	return 1;
}

#endif
