/* SPDX-License-Identifier: MIT */
/* The queues that bench/queue compares: one interface over all. */
#ifndef BENCH_QUEUE_KINDS_H
#define BENCH_QUEUE_KINDS_H

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <ukmem/alf_queue.h>

#include "die.h"

#ifdef HAVE_DPDK
#include <rte_ring.h>
#endif
#ifdef HAVE_CK
#define false 0 /* it returns that for a pointer, which is not C++ */
extern "C" {
#include <ck_ring.h>
}
#undef false
#endif

/*
 * Each kind has put(p, n), all of them or none, and get(p, n), as many as there are; both
 * return how many. All are made anew for each run, with room for @size pointers or one fewer.
 */

struct alf_base {
	alf_base(uint32_t size, unsigned int flags)
	    : q(alf_queue_alloc_flags(size, GFP_KERNEL, flags))
	{
		if (IS_ERR(q))
			die("no queue");
	}
	~alf_base()
	{
		alf_queue_free(q);
	}
	alf_base(const alf_base &) = delete;
	alf_base &operator=(const alf_base &) = delete;

	struct alf_queue *q;
};

struct alf_spsc : alf_base {
	explicit alf_spsc(uint32_t size) : alf_base(size, 0)
	{
	}
	[[gnu::always_inline]] unsigned int put(void **p, unsigned int n)
	{
		return alf_sp_enqueue(q, p, n);
	}
	[[gnu::always_inline]] unsigned int get(void **p, unsigned int n)
	{
		return alf_sc_dequeue(q, p, n);
	}
};

template <unsigned int flags> struct alf_multi : alf_base {
	explicit alf_multi(uint32_t size) : alf_base(size, flags)
	{
	}
	[[gnu::always_inline]] unsigned int put(void **p, unsigned int n)
	{
		return alf_mp_enqueue(q, p, n);
	}
	[[gnu::always_inline]] unsigned int get(void **p, unsigned int n)
	{
		return alf_mc_dequeue(q, p, n);
	}
};
using alf_mpmc = alf_multi<0>;
using alf_ticket = alf_multi<ALF_QUEUE_TICKET>;

#ifdef HAVE_DPDK
/* On memory of ours: rings need no EAL for that. */
template <unsigned int flags> struct rte_kind {
	explicit rte_kind(uint32_t size)
	{
		ssize_t bytes = rte_ring_get_memsize(size);

		r = static_cast<struct rte_ring *>(
			aligned_alloc(4096, (static_cast<size_t>(bytes) + 4095) & ~4095ul));
		if (bytes < 0 || !r || rte_ring_init(r, "bench", size, flags))
			die("no rte_ring");
	}
	~rte_kind()
	{
		free(r);
	}
	rte_kind(const rte_kind &) = delete;
	rte_kind &operator=(const rte_kind &) = delete;

	[[gnu::always_inline]] unsigned int put(void **p, unsigned int n)
	{
		if constexpr (flags == (RING_F_SP_ENQ | RING_F_SC_DEQ))
			return rte_ring_sp_enqueue_bulk(r, p, n, nullptr);
		else
			return rte_ring_enqueue_bulk(r, p, n, nullptr);
	}
	[[gnu::always_inline]] unsigned int get(void **p, unsigned int n)
	{
		if constexpr (flags == (RING_F_SP_ENQ | RING_F_SC_DEQ))
			return rte_ring_sc_dequeue_burst(r, p, n, nullptr);
		else
			return rte_ring_dequeue_burst(r, p, n, nullptr);
	}

	struct rte_ring *r;
};
using rte_spsc = rte_kind<RING_F_SP_ENQ | RING_F_SC_DEQ>;
using rte_mpmc = rte_kind<0>;
using rte_rts = rte_kind<RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ>;
using rte_hts = rte_kind<RING_F_MP_HTS_ENQ | RING_F_MC_HTS_DEQ>;
#endif

#ifdef HAVE_CK
/* No bulk: one by one. What does not fit of a bulk is put when it does. */
template <bool multi> struct ck_kind {
	explicit ck_kind(uint32_t size)
	    : buffer(static_cast<ck_ring_buffer_t *>(calloc(size, sizeof(*buffer))))
	{
		if (!buffer)
			die("no memory");
		ck_ring_init(&r, size);
	}
	~ck_kind()
	{
		free(buffer);
	}
	ck_kind(const ck_kind &) = delete;
	ck_kind &operator=(const ck_kind &) = delete;

	[[gnu::always_inline]] unsigned int put(void **p, unsigned int n)
	{
		unsigned int i = 0;

		while (i < n && (multi ? ck_ring_enqueue_mpmc(&r, buffer, p[i])
				       : ck_ring_enqueue_spsc(&r, buffer, p[i])))
			i++;
		return i;
	}
	[[gnu::always_inline]] unsigned int get(void **p, unsigned int n)
	{
		unsigned int i = 0;

		while (i < n && (multi ? ck_ring_dequeue_mpmc(&r, buffer, &p[i])
				       : ck_ring_dequeue_spsc(&r, buffer, &p[i])))
			i++;
		return i;
	}

	ck_ring_t r;
	ck_ring_buffer_t *buffer;
};
using ck_spsc = ck_kind<false>;
using ck_mpmc = ck_kind<true>;
#endif

struct spin_lock {
	spin_lock()
	{
		pthread_spin_init(&l, PTHREAD_PROCESS_PRIVATE);
	}
	void lock()
	{
		pthread_spin_lock(&l);
	}
	void unlock()
	{
		pthread_spin_unlock(&l);
	}
	pthread_spinlock_t l;
};

struct mutex_lock {
	void lock()
	{
		pthread_mutex_lock(&l);
	}
	void unlock()
	{
		pthread_mutex_unlock(&l);
	}
	pthread_mutex_t l = PTHREAD_MUTEX_INITIALIZER;
};

/* An array and one lock around it. */
template <typename lock_type> struct locked_array {
	explicit locked_array(uint32_t size)
	    : mask(size - 1), ring(static_cast<void **>(calloc(size, sizeof(void *))))
	{
		if (!ring)
			die("no memory");
	}
	~locked_array()
	{
		free(ring);
	}
	locked_array(const locked_array &) = delete;
	locked_array &operator=(const locked_array &) = delete;

	[[gnu::always_inline]] unsigned int put(void **p, unsigned int n)
	{
		lock.lock();
		if (mask + 1 - (tail - head) < n)
			n = 0;
		for (unsigned int i = 0; i < n; i++)
			ring[tail++ & mask] = p[i];
		lock.unlock();
		return n;
	}
	[[gnu::always_inline]] unsigned int get(void **p, unsigned int n)
	{
		lock.lock();
		if (tail - head < n)
			n = tail - head;
		for (unsigned int i = 0; i < n; i++)
			p[i] = ring[head++ & mask];
		lock.unlock();
		return n;
	}

	alignas(64) lock_type lock;
	uint32_t head = 0, tail = 0, mask;
	void **ring;
};
using spin_array = locked_array<spin_lock>;
using mutex_array = locked_array<mutex_lock>;

#endif
