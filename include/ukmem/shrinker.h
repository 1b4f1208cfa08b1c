/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/shrinker.h> - callbacks of programs that hold memory which they could do without.
 *
 * When a request with GFP_KERNEL finds no memory within the limits, the library calls all
 * registered shrinkers, one after another: for a 16th of what they have; if that frees too
 * little, for a quarter, and then for all. The kernel's interface. It does not call them for
 * a request that the system refuses and that is larger than all memory the process has of it,
 * since what they free could not serve it.
 *
 * Thread safety: all functions, any thread, shrinkers included; but a shrinker that runs may
 * not unregister another one. Signal safety: memalloc_flags_save() and
 * memalloc_flags_restore().
 */
#ifndef UKMEM_SHRINKER_H
#define UKMEM_SHRINKER_H

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

#define SHRINK_STOP (~0ul)  /**< result of scan_objects: it cannot free anything now */
#define SHRINK_EMPTY (~1ul) /**< result of count_objects: there are no objects at all */

struct shrink_control {
	gfp_t gfp_mask;		  /**< flags of the request that is short of memory */
	int nid;		  /**< id of the node that is short; the first node: any */
	unsigned long nr_to_scan; /**< objects to look at */
	unsigned long nr_scanned; /**< objects that were looked at; preset to nr_to_scan */
};

/**
 * A shrinker. The thread that is short of memory calls both functions; the process makes one
 * such call at a time. They may free and allocate, but must not take a lock that any thread
 * holds while it allocates with GFP_KERNEL, or calls one of the two functions below.
 */
struct shrinker {
	/** How many objects could be freed; 0 or SHRINK_EMPTY: none. */
	unsigned long (*count_objects)(struct shrinker *, struct shrink_control *);
	/** Try to free up to sc->nr_to_scan objects. Result: the number freed; SHRINK_STOP. */
	unsigned long (*scan_objects)(struct shrinker *, struct shrink_control *);
	long batch;	    /**< objects per call of scan_objects; 0: 128 */
	int seeks;	    /**< cost of making an object again; 0: cheap, free all of them */
	void *private_data; /**< for the program's use */
	/* Private to the library. */
	struct shrinker *next;
	const char *name;
};

#define DEFAULT_SEEKS 2

/**
 * register_shrinker - call @s from now on
 *
 * @s and @name must stay valid, at the same address, until @s is unregistered. Waits for other
 * threads' calls of shrinkers that are under way. Result: 0; -EINVAL: a function is missing, or
 * @s is registered already.
 */
UKMEM_EXPORT int register_shrinker(struct shrinker *s, const char *name)
	UKMEM_SYMBOL(register_shrinker);
/** unregister_shrinker - do not call @s any more; waits as register_shrinker() does. */
UKMEM_EXPORT void unregister_shrinker(struct shrinker *s) UKMEM_SYMBOL(unregister_shrinker);

/** This thread's requests reclaim nothing, and may use the reserves, as with __GFP_HIGH. */
#define PF_MEMALLOC 0x800u
/** Shrinkers that this thread calls see no __GFP_FS in gfp_mask. */
#define PF_MEMALLOC_NOFS 0x40000u
/** Shrinkers that this thread calls see neither __GFP_FS nor __GFP_IO. */
#define PF_MEMALLOC_NOIO 0x80000u

/**
 * memalloc_flags_save - begin a scope in which this thread's requests may do less
 * @flags: of the three above; the library ignores others
 *
 * A thread opens a scope when it holds a lock that a shrinker of the program takes: the
 * shrinker looks at gfp_mask and leaves the lock alone, or the library does not call it. The
 * flags have an effect only when memory is short. With PF_MEMALLOC, a request fails where
 * others reclaim; with __GFP_NOFAIL it waits until other threads free memory.
 *
 * Result: those of @flags that this call has set, for memalloc_flags_restore(). Scopes nest.
 */
UKMEM_EXPORT unsigned int memalloc_flags_save(unsigned int flags)
	UKMEM_SYMBOL(memalloc_flags_save);
/** memalloc_flags_restore - end a scope; @saved: the result of its memalloc_flags_save(). */
UKMEM_EXPORT void memalloc_flags_restore(unsigned int saved)
	UKMEM_SYMBOL(memalloc_flags_restore);

UKMEM_END_DECLS

#endif
