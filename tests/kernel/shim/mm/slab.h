/* SPDX-License-Identifier: MIT */
/*
 * What lib/slub_kunit.c wants of the kernel's mm/slab.h. SLUB counts two errors for each thing
 * that it finds, the report and the repair.
 */
#ifndef KERNEL_SHIM_MM_SLAB_H
#define KERNEL_SHIM_MM_SLAB_H

#include <kunit/test.h>
#include <linux/slab.h>
#include <ukmem/stats.h>

/* So that a case compiles that is left out: the library's objects hold no free pointer. */
struct kmem_cache {
	unsigned int offset;
};

static inline void validate_slab_cache(struct kmem_cache *s)
{
	struct kunit_resource *errors = kunit_find_named_resource(NULL, "slab_errors");

	BUG_ON(!errors);
	BUG_ON(kmem_cache_attr_store(s, "validate", "1") == -EINVAL);
	*(int *)errors->data += 2 * ukmem_verify(stdout);
}

#define kasan_disable_current() ((void)0)
#define kasan_enable_current() ((void)0)

#endif
