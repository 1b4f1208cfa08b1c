/* SPDX-License-Identifier: MIT */
/*
 * The array's operations by a CPU's owner (percpu_owner_enter), with plain loads and stores,
 * because no other thread and no handler pushes and pops on this CPU. They are used only where
 * sections are; with the fallback's lock they would save nothing.
 *
 * A remote stop (array_stop.c) may come meanwhile. It cannot restart these operations as it
 * restarts sections, so they announce themselves:
 *
 *   owner:    busy = 1; h = header; stop bits? fail; slots; header = ...; busy = 0	(B1)
 *   stopper:  set the stop bits; membarrier; busy? leave this array alone		(B2)
 *
 * The membarrier is a full barrier on the owner's CPU, somewhere among these instructions.
 *   1. If it comes before busy = 1, the owner loads the header after it and sees the stop bit.
 *   2. If it comes after busy = 1, the stopper sees busy and leaves the array alone, unless the
 *	operation has ended; then, by B1 (release) and B2 (acquire), the stopper sees all that
 *	the operation stored.
 *   3. An operation that loaded the header before the stop bit was set wipes the bit out. In
 *	case 2 the stopper leaves the array alone, or it loads the header after busy and finds
 *	that the bit is missing.
 */
#ifndef PERCPU_ARRAY_OWNER_H
#define PERCPU_ARRAY_OWNER_H

#include <string.h>

#include "base/assert.h"
#include "percpu/array.h"

static always_inline struct pcpu_array *pcpu_owner_begin(void *array)
{
	const char *self = __builtin_thread_pointer();
	uint32_t index = *(const volatile uint32_t *)(const void *)(self + pcpu.index);
	struct pcpu_array *a = pcpu_ptr(array, index);

	debug_assert(index < pcpu.nr_ids);
	atomic_store_explicit(&a->owner_busy, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return a;
}

static always_inline void pcpu_owner_end(struct pcpu_array *a)
{
	atomic_store_explicit(&a->owner_busy, false, memory_order_release); /* B1 */
}

static always_inline void *pcpu_array_pop_owner(void *array)
{
	struct pcpu_array *a = pcpu_owner_begin(array);
	uint64_t h = pcpu_array_header(a);
	uint64_t next = h + (uint64_t)PCPU_POP_COUNTED;
	void *object = NULL;

	if (likely(!(next & PCPU_ARRAY_REFUSED))) {
		object = a->slot[(uint16_t)h - 1];
		atomic_store_explicit(&a->header, next, memory_order_relaxed);
	}
	pcpu_owner_end(a);
	return object;
}

static always_inline bool pcpu_array_push_owner(void *array, void *object)
{
	struct pcpu_array *a = pcpu_owner_begin(array);
	uint64_t h = pcpu_array_header(a);
	unsigned int count = (uint16_t)h; /* with the stop bits above every capacity */
	bool fits = count < atomic_load_explicit(&a->capacity, memory_order_relaxed);

	if (likely(fits)) {
		a->slot[count] = object;
		atomic_store_explicit(&a->header, h + 1, memory_order_relaxed);
	}
	pcpu_owner_end(a);
	return fits;
}

/* Copies four at a time, as sections do. */
static always_inline void pcpu_owner_copy(void **to, void *const *from, unsigned int n)
{
	for (; n >= 4; n -= 4, to += 4, from += 4)
		memcpy(to, from, 4 * sizeof(*to));
	for (; n; n--) {
		void *one = *from++;

		__asm__("" : "+r"(one)); /* keeps compilers from calling memcpy */
		*to++ = one;
	}
}

static inline unsigned int pcpu_array_pop_bulk_owner(void *array, void **out, unsigned int n)
{
	struct pcpu_array *a = pcpu_owner_begin(array);
	uint64_t h = pcpu_array_header(a);
	unsigned int k = pcpu_array_most(h, PCPU_POP_COUNTED);

	if (k > n)
		k = n;
	if (k) {
		pcpu_owner_copy(out, a->slot + (pcpu_array_count(h) - k), k);
		atomic_store_explicit(&a->header, h + k * (uint64_t)PCPU_POP_COUNTED,
				      memory_order_relaxed);
	}
	pcpu_owner_end(a);
	return k;
}

static inline unsigned int pcpu_array_push_bulk_owner(void *array, void *const *in,
						      unsigned int n)
{
	struct pcpu_array *a = pcpu_owner_begin(array);
	uint64_t h = pcpu_array_header(a);
	unsigned int count = (uint16_t)h;
	unsigned int capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	unsigned int k = count < capacity ? capacity - count : 0;

	if (k > n)
		k = n;
	if (k) {
		pcpu_owner_copy(a->slot + count, in, k);
		atomic_store_explicit(&a->header, h + k, memory_order_relaxed);
	}
	pcpu_owner_end(a);
	return k;
}

#endif
