/* SPDX-License-Identifier: MIT */
/* Included before the first line of tools/testing/radix-tree/maple.c. */
#include <linux/slab.h>

#include <string.h>
#include <unistd.h>

/* The program declares a function of its slab shim with another type than <ukmem/slab.h>. */
#define kmem_cache_nr_allocated trees_nr_allocated

/*
 * run_check_rcu and run_check_rcu_slowread sleep 5 microseconds "to ensure all threads are at
 * least started", and then demand that some of 20 threads saw what was before. On few CPUs that
 * takes longer.
 */
#define usleep(us) usleep(!strncmp(__func__, "run_check_rcu", 13) && (us) == 5 ? 50000 : (us))
