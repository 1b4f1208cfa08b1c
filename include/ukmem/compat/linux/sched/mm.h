/* SPDX-License-Identifier: MIT */
/*
 * <linux/sched/mm.h> - scopes in which a thread's requests may do less:
 * memalloc_flags_save() of <ukmem/shrinker.h>.
 *
 * All requests of the thread are in the scope, whichever function makes them. Where the kernel
 * does no I/O and calls no file system, the library passes shrinkers a gfp_mask without
 * __GFP_IO and __GFP_FS, which have no other effect here. Requests that memory can serve are
 * the same within a scope, and take as long.
 */
#ifndef UKMEM_COMPAT_LINUX_SCHED_MM_H
#define UKMEM_COMPAT_LINUX_SCHED_MM_H

#include <stdbool.h>

#include <linux/gfp.h>
#include <linux/types.h>
#include <ukmem/shrinker.h>

/* Results: for the function that ends the scope. */
static inline unsigned int memalloc_noio_save(void)
{
	return memalloc_flags_save(PF_MEMALLOC_NOIO);
}

static inline void memalloc_noio_restore(unsigned int saved)
{
	memalloc_flags_restore(saved);
}

static inline unsigned int memalloc_nofs_save(void)
{
	return memalloc_flags_save(PF_MEMALLOC_NOFS);
}

static inline void memalloc_nofs_restore(unsigned int saved)
{
	memalloc_flags_restore(saved);
}

/* The thread's requests reclaim nothing, and may use the reserves. */
static inline unsigned int memalloc_noreclaim_save(void)
{
	return memalloc_flags_save(PF_MEMALLOC);
}

static inline void memalloc_noreclaim_restore(unsigned int saved)
{
	memalloc_flags_restore(saved);
}

/* Pages are never moved here. */
static inline unsigned int memalloc_pin_save(void)
{
	return 0;
}

static inline void memalloc_pin_restore(unsigned int saved)
{
	(void)saved;
}

/* Whether the thread is in a scope of @flag. */
static inline bool ukmem_memalloc_scope(unsigned int flag)
{
	unsigned int saved = memalloc_flags_save(flag);

	memalloc_flags_restore(saved);
	return !saved;
}

/* @flags as they count in the thread's scopes. */
static inline gfp_t current_gfp_context(gfp_t flags)
{
	if (ukmem_memalloc_scope(PF_MEMALLOC_NOIO))
		return flags & ~(__GFP_IO | __GFP_FS);
	return ukmem_memalloc_scope(PF_MEMALLOC_NOFS) ? flags & ~__GFP_FS : flags;
}

/* Locks are not checked. */
#define might_alloc(flags) ((void)(flags))
#define fs_reclaim_acquire(flags) ((void)(flags))
#define fs_reclaim_release(flags) ((void)(flags))

#endif
