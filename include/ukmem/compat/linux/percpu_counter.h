/* SPDX-License-Identifier: MIT */
/*
 * <linux/percpu_counter.h> - counters that many threads add to.
 *
 * A thread adds to its CPU's part, which moves to the common count when it reaches a batch. So
 * percpu_counter_read(), which looks at the common count alone, is off by less than a batch for
 * each CPU, and percpu_counter_sum() is exact: every addition that was over when it began is in
 * it. An addition that does not reach a batch is one restartable sequence; the others, and
 * sums, take the counter's lock, so signal handlers must leave counters alone.
 */
#ifndef UKMEM_COMPAT_LINUX_PERCPU_COUNTER_H
#define UKMEM_COMPAT_LINUX_PERCPU_COUNTER_H

#include <linux/gfp.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct percpu_counter {
	raw_spinlock_t lock;
	s64 count;
	s64 *counters; /* a handle; NULL: not initialised */
};

/* As the kernel computes it, once: 32, or twice the CPUs if that is more. */
static inline s32 ukmem_percpu_counter_batch(void)
{
	static s32 kept;
	s32 batch = READ_ONCE(kept);

	if (__builtin_expect(!batch, 0)) {
		unsigned int cpus = num_possible_cpus();

		batch = cpus > 16 ? (s32)(2 * cpus) : 32;
		WRITE_ONCE(kept, batch);
	}
	return batch;
}
#define percpu_counter_batch ukmem_percpu_counter_batch()

/* Result: 0; -ENOMEM. */
static inline int percpu_counter_init(struct percpu_counter *fbc, s64 amount, gfp_t gfp)
{
	raw_spin_lock_init(&fbc->lock);
	fbc->count = amount;
	fbc->counters = alloc_percpu_gfp(s64, gfp);
	return fbc->counters ? 0 : -12 /* ENOMEM */;
}

static inline bool percpu_counter_initialized(struct percpu_counter *fbc)
{
	return fbc->counters != NULL;
}

/* A counter that was not initialised is left alone if it is all zeros. */
static inline void percpu_counter_destroy(struct percpu_counter *fbc)
{
	if (!fbc->counters)
		return;
	free_percpu(fbc->counters);
	fbc->counters = NULL;
}

/* Destroys @nr counters, one behind the other. */
static inline void percpu_counter_destroy_many(struct percpu_counter *fbc, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		percpu_counter_destroy(&fbc[i]);
}

/* Initialises @nr counters, one behind the other. Result: 0; -ENOMEM, and none is initialised.
 */
static inline int percpu_counter_init_many(struct percpu_counter *fbc, s64 amount, gfp_t gfp,
					   u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		int err = percpu_counter_init(&fbc[i], amount, gfp);

		if (err) {
			percpu_counter_destroy_many(fbc, i);
			return err;
		}
	}
	return 0;
}

/* Moves this CPU's part to the common count. */
static inline void percpu_counter_sync(struct percpu_counter *fbc)
{
	raw_spin_lock(&fbc->lock);
	WRITE_ONCE(fbc->count, fbc->count + this_cpu_xchg(*fbc->counters, 0));
	raw_spin_unlock(&fbc->lock);
}

static inline void percpu_counter_add_batch(struct percpu_counter *fbc, s64 amount, s32 batch)
{
	s64 part = this_cpu_add_return(*fbc->counters, amount);

	if (part >= batch || part <= -batch)
		percpu_counter_sync(fbc);
}

static inline void percpu_counter_add(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add_batch(fbc, amount, percpu_counter_batch);
}

/* For counters that are rarely read: parts are large. */
static inline void percpu_counter_add_local(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add_batch(fbc, amount, 0x7fffffff);
}

static inline void percpu_counter_sub(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add(fbc, -amount);
}

static inline void percpu_counter_sub_local(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add_local(fbc, -amount);
}

static inline void percpu_counter_inc(struct percpu_counter *fbc)
{
	percpu_counter_add(fbc, 1);
}

static inline void percpu_counter_dec(struct percpu_counter *fbc)
{
	percpu_counter_add(fbc, -1);
}

/* About the value, without a lock. */
static inline s64 percpu_counter_read(struct percpu_counter *fbc)
{
	return READ_ONCE(fbc->count);
}

static inline s64 percpu_counter_read_positive(struct percpu_counter *fbc)
{
	s64 count = percpu_counter_read(fbc);

	return count > 0 ? count : 0;
}

static inline s64 percpu_counter_sum(struct percpu_counter *fbc)
{
	s64 sum;

	raw_spin_lock(&fbc->lock);
	sum = fbc->count + per_cpu_sum(*fbc->counters);
	raw_spin_unlock(&fbc->lock);
	return sum;
}

static inline s64 percpu_counter_sum_positive(struct percpu_counter *fbc)
{
	s64 sum = percpu_counter_sum(fbc);

	return sum > 0 ? sum : 0;
}

/*
 * Adds @amount if the sum stays at or below @limit; for a negative @amount, at or above it.
 * Result: whether it did. Threads that call this exclude each other, so they do not pass the
 * limit together; the other functions add whatever the limit is. It sums all CPUs' parts each
 * time.
 */
static inline bool percpu_counter_limited_add(struct percpu_counter *fbc, s64 limit, s64 amount)
{
	bool fits;
	s64 sum;

	if (!amount)
		return true;
	raw_spin_lock(&fbc->lock);
	sum = fbc->count + per_cpu_sum(*fbc->counters) + amount;
	fits = amount > 0 ? sum <= limit : sum >= limit;
	if (fits)
		WRITE_ONCE(fbc->count, fbc->count + amount);
	raw_spin_unlock(&fbc->lock);
	return fits;
}

/* No thread may add meanwhile. */
static inline void percpu_counter_set(struct percpu_counter *fbc, s64 amount)
{
	unsigned int cpu;

	raw_spin_lock(&fbc->lock);
	for_each_possible_cpu(cpu) WRITE_ONCE(*per_cpu_ptr(fbc->counters, cpu), 0);
	WRITE_ONCE(fbc->count, amount);
	raw_spin_unlock(&fbc->lock);
}

/* -1, 0 or 1: less than, equal to or greater than @rhs; sums only if the count is near it. */
static inline int __percpu_counter_compare(struct percpu_counter *fbc, s64 rhs, s32 batch)
{
	s64 count = percpu_counter_read(fbc);
	s64 off = (s64)batch * num_possible_cpus();

	if (count - rhs <= off && rhs - count <= off)
		count = percpu_counter_sum(fbc);
	return (count > rhs) - (count < rhs);
}

static inline int percpu_counter_compare(struct percpu_counter *fbc, s64 rhs)
{
	return __percpu_counter_compare(fbc, rhs, percpu_counter_batch);
}

#endif
