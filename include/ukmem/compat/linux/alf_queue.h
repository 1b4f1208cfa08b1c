/* SPDX-License-Identifier: MIT */
/*
 * <linux/alf_queue.h> - the array-based lock-free queue as it was proposed for the kernel in
 * 2014, on <ukmem/alf_queue.h>.
 *
 * The functions have the types of the original: results are int, arrays are not const. Two
 * things differ. All places of a queue can be used, where the original keeps one free. And
 * multi functions may be called in signal handlers, because none waits for another thread.
 *
 * In C++ the functions are those of <ukmem/alf_queue.h>, as <ukmem/alf_queue.hpp> needs them:
 * results are unsigned int. They take the original's arrays, too.
 */
#ifndef UKMEM_COMPAT_LINUX_ALF_QUEUE_H
#define UKMEM_COMPAT_LINUX_ALF_QUEUE_H

#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/types.h>
#include <ukmem/alf_queue.h>

#ifndef __cplusplus

/* All of them, or none: @n or 0. */
static inline int ukmem_seed_mp_enqueue(struct alf_queue *q, void *ptr[], const u32 n)
{
	return (int)alf_mp_enqueue(q, ptr, n);
}

static inline int ukmem_seed_sp_enqueue(struct alf_queue *q, void *ptr[], const u32 n)
{
	return (int)alf_sp_enqueue(q, ptr, n);
}

/* As many as there are: 0 to @n. */
static inline int ukmem_seed_mc_dequeue(struct alf_queue *q, void *ptr[], const u32 n)
{
	return (int)alf_mc_dequeue(q, ptr, n);
}

static inline int ukmem_seed_sc_dequeue(struct alf_queue *q, void *ptr[], const u32 n)
{
	return (int)alf_sc_dequeue(q, ptr, n);
}

static inline int ukmem_seed_queue_count(struct alf_queue *q)
{
	return (int)alf_queue_count(q);
}

static inline int ukmem_seed_queue_avail_space(struct alf_queue *q)
{
	return (int)alf_queue_avail_space(q);
}

static inline bool ukmem_seed_queue_empty(struct alf_queue *q)
{
	return alf_queue_empty(q);
}

#define alf_mp_enqueue ukmem_seed_mp_enqueue
#define alf_sp_enqueue ukmem_seed_sp_enqueue
#define alf_mc_dequeue ukmem_seed_mc_dequeue
#define alf_sc_dequeue ukmem_seed_sc_dequeue
#define alf_queue_count ukmem_seed_queue_count
#define alf_queue_avail_space ukmem_seed_queue_avail_space
#define alf_queue_empty ukmem_seed_queue_empty

#endif

#endif
