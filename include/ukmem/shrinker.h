/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/shrinker.h> - programs that hold memory they could do without.
 *
 * When a request of GFP_KERNEL finds no memory within the limits, registered shrinkers
 * are asked for some of theirs back, one after another, while there is not enough. The
 * kernel's interface.
 */
#ifndef UKMEM_SHRINKER_H
#define UKMEM_SHRINKER_H

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

#define SHRINK_STOP (~0ul)  /**< scan_objects: cannot do anything now */
#define SHRINK_EMPTY (~1ul) /**< count_objects: there is nothing, and was nothing */

struct shrink_control {
	gfp_t gfp_mask;		  /**< of the request that is short of memory */
	int nid;		  /**< the node that is; the first one: any */
	unsigned long nr_to_scan; /**< objects to look at */
	unsigned long nr_scanned; /**< objects that were; preset to nr_to_scan */
};

/**
 * A shrinker. Both functions are called by the thread that is short of memory, one call
 * at a time in the process. They may free, and allocate, but must take no lock that is
 * held while allocating with GFP_KERNEL.
 */
struct shrinker {
	/** How many objects could be freed; 0 or SHRINK_EMPTY: none. */
	unsigned long (*count_objects)(struct shrinker *, struct shrink_control *);
	/** Try to free up to sc->nr_to_scan of them. Result: how many were, or SHRINK_STOP. */
	unsigned long (*scan_objects)(struct shrinker *, struct shrink_control *);
	long batch;	    /**< objects per call of scan_objects; 0: 128 */
	int seeks;	    /**< cost of making an object again; 0: little, all are asked for */
	void *private_data; /**< the program's */
	/* The library's. */
	struct shrinker *next;
	const char *name;
};

#define DEFAULT_SEEKS 2

/**
 * register_shrinker - ask @s from now on
 *
 * @s stays where it is until it is unregistered; @name must live as long.
 * Result: 0, or -EINVAL: a function is missing, or it is registered already.
 */
UKMEM_EXPORT int register_shrinker(struct shrinker *s, const char *name)
	UKMEM_SYMBOL(register_shrinker);
/** unregister_shrinker - no more; waits for a call that is under way. */
UKMEM_EXPORT void unregister_shrinker(struct shrinker *s) UKMEM_SYMBOL(unregister_shrinker);

UKMEM_END_DECLS

#endif
