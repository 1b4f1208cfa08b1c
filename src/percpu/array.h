/* SPDX-License-Identifier: MIT */
/*
 * The per-CPU array: a stack of object pointers, one per CPU, the fast path of
 * every allocator here.
 *
 *   offset  0        8          16
 *           | header | capacity | slot[0] | slot[1] | ... | slot[n - 1] |
 *
 *   header, one 64-bit word:
 *        63     62         32    31     30          16   15    14   13          0
 *      | mark | base of pops | guard | ticks of pops   |   stop   | fill count    |
 *
 * Invariant: slots [0, count) hold the free objects; count <= n and capacity <= n,
 * the slots allocated. Capacity bounds pushes alone: a thread that lowers it may leave
 * more objects than that, until they are popped.
 *
 * A push or pop of one object is one restartable section whose committing store is
 * the header: count and ticks change together or not at all. A push that has not
 * committed has written only above the count, where no other operation looks. An
 * all-zero array is empty and full at once, so the first use on a CPU takes the slow
 * path, which gives the array a capacity.
 *
 * Pops are counted in the ticks, which are a countdown, too: the pop after the last
 * tick fails, and its caller's slow path winds the countdown (pcpu_array_wind in
 * array_wind.c, which has the counts of more than 31 bits). base + ticks, modulo 2^31, is
 * the number of objects popped; winding moves a part of it from one to the other. mark
 * is for the thread that winds: what the countdown is for.
 *
 * A pop makes the header that it would store, h + 0xffff, and one test of that tells
 * whether it may:
 *
 *   count > 0               count - 1, no bit above it; the carry is a tick
 *   count = 0               0xffff: bit 15 is set
 *   stopped (0xc000)        0xc000 + count - 1, at least 0xbfff: bit 15 is set
 *   ticks = 0x7fff          with the carry, the guard is set
 *
 * Hence two bits for a stop, and a count of 14 bits.
 *
 * Synchronization: header: sections on the array's CPU write it; a remote stop
 * (array_stop.c), whose bits make pops fail as above and are more than any capacity is,
 * for pushes; and the thread that winds, by an atomic compare-and-swap. Any thread reads
 * it, relaxed. slot: sections on the array's CPU, or the thread that has stopped them. The
 * other fields: any thread, relaxed.
 *
 * Sections, specified once (array_x86_64.h, array_aarch64.h implement them):
 *
 *   pop(array, out):                      push(array, offset, object):
 *     a = array + index * stride            a = array + index * stride + offset
 *     h = a->header                         h = a->header
 *     next = h + 0xffff                     if (uint16)h >= a->capacity: fail
 *     if next & 0x80008000:                 a->slot[(uint16)h] = object
 *       fail, *out = NULL                   commit a->header = h + 1
 *     *out = a->slot[(uint16)h - 1]         return true
 *     commit a->header = next
 *     return true
 *
 *   pop_bulk(array, out, n, delta):       push_bulk(array, in, n):
 *     if h & 0x8000: fail                   k = min(capacity - (uint16)h, n)
 *     k = min((uint16)h, n)                 if k <= 0: fail
 *     if delta counts:                      slot[count..count + k) = in[0..k)
 *       k = min(k, ticks left in h)         commit header = h + k
 *     if k = 0: fail                        return k
 *     out[0..k) = slot[count - k..count)
 *     commit header = h + k * delta
 *     return k
 *
 * A section of a thread without a registration, or on a CPU without a unit, fails before it
 * accesses the array (UKMEM_RSEQ_CHECK).
 * @array: the address of the array's first copy, CPU index 0's (pcpu_ptr()).
 * @st: pcpu.
 *
 * pop_by_cpu and push_by_cpu are pop and push in another way to the array, a short one that has
 * no check: "a = units[cpu_id] + *entry", with cpu_id as a signed number. @units is a table
 * that leads from every value of cpu_id to a unit (unit_table.h); threads without a
 * registration and CPUs without a unit are led to the spill unit, where all arrays are closed.
 * @entry: the array (pcpu_entry()). @rseq: pcpu.rseq. pop_by_cid and push_by_cid go by mm_cid:
 * "if cpu_id < 0: fail; a = units[mm_cid] + *entry".
 *
 * A failure does not tell its reason: empty, full, stopped, no tick left, aborted, or no index.
 *
 * Signal safety: all operations. A handler's operation aborts the interrupted
 * section, which then fails.
 */
#ifndef PERCPU_ARRAY_H
#define PERCPU_ARRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "percpu/percpu.h"

struct pcpu_array {
	_Atomic uint64_t header;
	_Atomic uint16_t capacity;
	_Atomic uint8_t last_move;  /* slab_capacity.c: what moved lately, and in what order */
	_Atomic uint8_t owner_busy; /* array_owner.h */
	/* array_wind.c: how often the pops had passed 2^30 when the countdown was wound, and
	 * below it what the look before saw (pcpu_array_was_used). */
	_Atomic uint32_t laps;
	void *slot[];
};

#define PCPU_ARRAY_COUNT_MASK ((uint64_t)0x3fff)
#define PCPU_ARRAY_STOP ((uint64_t)0xc000)
#define PCPU_ARRAY_TICKS_SHIFT 16
#define PCPU_ARRAY_TICKS                                                                       \
	((uint64_t)0x7fff) /* so many are left in an array that is wound up                    \
			    */
#define PCPU_ARRAY_REFUSED ((uint64_t)0x80008000) /* bits of a header that no pop may store */
#define PCPU_ARRAY_BASE_SHIFT 32
#define PCPU_ARRAY_POPS_MASK ((uint64_t)0x7fffffff)
#define PCPU_ARRAY_MARK ((uint64_t)1 << 63)
#define PCPU_ARRAY_MAX_SLOTS 0x3fffu

/* The header's change for each object popped; it counts as an allocation, or does not. Sections
 * tell them apart by the bits from 16 on. */
#define PCPU_POP_COUNTED ((int64_t)0xffff)
#define PCPU_POP_UNCOUNTED ((int64_t)-1)

static inline size_t pcpu_array_size(unsigned int slots)
{
	debug_assert(slots <= PCPU_ARRAY_MAX_SLOTS);
	return sizeof(struct pcpu_array) + slots * sizeof(void *);
}

static inline unsigned int pcpu_array_count(uint64_t header)
{
	return (unsigned int)(header & PCPU_ARRAY_COUNT_MASK);
}

/* How many pops are left until one fails. */
static inline unsigned int pcpu_array_left(uint64_t header)
{
	return (unsigned int)(~header >> PCPU_ARRAY_TICKS_SHIFT & PCPU_ARRAY_TICKS);
}

/* The objects popped, modulo 2^31; pcpu_array_pops() has all of them. */
static inline uint32_t pcpu_array_low_pops(uint64_t header)
{
	return (uint32_t)(((header >> PCPU_ARRAY_BASE_SHIFT) +
			   (header >> PCPU_ARRAY_TICKS_SHIFT & PCPU_ARRAY_TICKS)) &
			  PCPU_ARRAY_POPS_MASK);
}

/* How many objects a bulk pop may take that adds @delta to the header for each. */
static inline unsigned int pcpu_array_most(uint64_t header, int64_t delta)
{
	unsigned int count = header & PCPU_ARRAY_STOP ? 0 : pcpu_array_count(header);
	unsigned int left = pcpu_array_left(header);

	return delta == PCPU_POP_COUNTED && left < count ? left : count;
}

static inline uint64_t pcpu_array_header(const struct pcpu_array *a)
{
	return atomic_load_explicit(&a->header, memory_order_relaxed);
}

/* The contents of slot @i, below the count. The CPU may use its array meanwhile; then it may be
 * an object that has just left. */
static inline no_sanitize_thread void *pcpu_array_peek(const struct pcpu_array *a,
						       unsigned int i)
{
	debug_assert(i < PCPU_ARRAY_MAX_SLOTS);
	return *(void *const volatile *)&a->slot[i];
}

/* The operations below, under the slot's lock (array_fallback.c). */
void *pcpu_fallback_pop(void *array);
bool pcpu_fallback_push(void *array, void *object);
unsigned int pcpu_fallback_pop_bulk(void *array, void **out, unsigned int n, int64_t delta);
unsigned int pcpu_fallback_push_bulk(void *array, void *const *in, unsigned int n);

#if UKMEM_HAVE_RSEQ && defined(__x86_64__)
#include "percpu/array_x86_64.h"
#elif UKMEM_HAVE_RSEQ && defined(__aarch64__)
#include "percpu/array_aarch64.h"
#else
#define pcpu_array_pop_rseq(st, array, out) (*(out) = NULL, no_section(false, st, array))
#define pcpu_array_push_rseq(...) no_section(false, __VA_ARGS__)
#define pcpu_array_pop_by_cpu(units, rseq, entry, out)                                         \
	(*(out) = NULL, no_section(false, units, rseq, entry))
#define pcpu_array_pop_by_cid pcpu_array_pop_by_cpu
#define pcpu_array_push_by_cpu(...) no_section(false, __VA_ARGS__)
#define pcpu_array_push_by_cid pcpu_array_push_by_cpu
#define pcpu_array_pop_bulk_rseq(...) (unsigned int)no_section(0, __VA_ARGS__)
#define pcpu_array_push_bulk_rseq(...) (unsigned int)no_section(0, __VA_ARGS__)
#endif

/* Pops an object off this CPU's array; NULL: failed. */
static always_inline void *pcpu_array_pop(void *array)
{
	void *object;

	if (unlikely(!pcpu_use_rseq()))
		return pcpu_fallback_pop(array);
	pcpu_array_pop_rseq(&pcpu, array, &object);
	return object;
}

static always_inline bool pcpu_array_push(void *array, void *object)
{
	return likely(pcpu_use_rseq()) ? pcpu_array_push_rseq(&pcpu, array, 0, object)
				       : pcpu_fallback_push(array, object);
}

/* Pops up to @n objects into @out. Result: how many. */
static inline unsigned int pcpu_array_pop_bulk(void *array, void **out, unsigned int n,
					       int64_t delta)
{
	if (unlikely(!n))
		return 0;
	return likely(pcpu_use_rseq()) ? pcpu_array_pop_bulk_rseq(&pcpu, array, out, n, delta)
				       : pcpu_fallback_pop_bulk(array, out, n, delta);
}

/* Pushes the first objects of @in, as many as fit. Result: how many. */
static inline unsigned int pcpu_array_push_bulk(void *array, void *const *in, unsigned int n)
{
	if (unlikely(!n))
		return 0;
	return likely(pcpu_use_rseq()) ? pcpu_array_push_bulk_rseq(&pcpu, array, in, n)
				       : pcpu_fallback_push_bulk(array, in, n);
}

#endif
