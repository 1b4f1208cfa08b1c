/* SPDX-License-Identifier: MIT */
/*
 * Array operations without restartable sequences: a lock per CPU slot.
 *
 * Operations only try the lock. If a slot is busy (its holder was preempted, or this is a
 * signal handler that interrupted it), the operation tries the next slot; if all are busy it
 * fails, as an aborted section does, and the caller takes its slow path. So no operation waits
 * for a preempted thread. A stop does wait for all slots (array_stop.c). So a thread in a slot
 * counts as a holder of a lock, and a signal handler that interrupts it makes no stop
 * (lock_none_held).
 *
 * The lock names its holder by the thread pointer. In the child of a fork only the thread that
 * forked exists, so the slots of all others are free there. A slot of its own is one that it
 * was using, or had stopped, when a signal handler interrupted it and forked. This slot stays
 * locked: the interrupted code goes on in the child, too, and releases it.
 *
 * F1, the acquire of a slot, pairs with F2, its release: a holder sees what the holder before
 * it wrote to the unit's arrays.
 */
#include "percpu/array_fallback.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/lock.h"
#include "os/os.h"
#include "percpu/array.h"
#include "percpu/register.h"
#include "percpu/unit.h"

static bool slot_trylock(unsigned int index)
{
	uintptr_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&pcpu_unit(index)->slot_lock, &expected,
						       lock_self(),
						       memory_order_acquire, /* F1 */
						       memory_order_relaxed);
}

void pcpu_slot_unlock(unsigned int index)
{
	atomic_store_explicit(&pcpu_unit(index)->slot_lock, 0, memory_order_release); /* F2 */
}

void pcpu_slot_lock(unsigned int index)
{
	for (unsigned int i = 0; !slot_trylock(index); i++)
		os_pause_look(i);
}

void pcpu_slots_fork_child(void)
{
	if (!pcpu_first_unit())
		return;
	for (unsigned int i = 0; i < pcpu.nr_ids; i++)
		if (!lock_names_me(&pcpu_unit(i)->slot_lock))
			pcpu_slot_unlock(i);
}

/* Takes this CPU's slot, or the next one that is free. False: all are busy. */
static bool slot_enter(unsigned int *index)
{
	unsigned int start = pcpu_index();

	lock_note(1);
	for (unsigned int i = 0; i < pcpu.nr_ids; i++) {
		*index = (start + i) % pcpu.nr_ids;
		if (slot_trylock(*index))
			return true;
	}
	lock_note(-1);
	return false;
}

static void slot_leave(unsigned int index)
{
	pcpu_slot_unlock(index);
	lock_note(-1);
}

static void set_header(struct pcpu_array *a, uint64_t h)
{
	debug_assert(!pcpu_use_rseq() && !(h & PCPU_ARRAY_STOP));
	atomic_store_explicit(&a->header, h, memory_order_relaxed);
}

unsigned int pcpu_fallback_pop_bulk(void *array, void **out, unsigned int n, int64_t delta)
{
	struct pcpu_array *a;
	unsigned int index, count;
	uint64_t h;

	debug_assert(delta == PCPU_POP_COUNTED || delta == PCPU_POP_UNCOUNTED);
	if (!slot_enter(&index))
		return 0;
	a = pcpu_ptr(array, index);
	h = pcpu_array_header(a);
	count = pcpu_array_count(h);
	n = min_uint(n, pcpu_array_most(h, delta));
	for (unsigned int i = 0; i < n; i++)
		out[i] = a->slot[count - n + i];
	set_header(a, h + n * (uint64_t)delta);
	slot_leave(index);
	return n;
}

unsigned int pcpu_fallback_push_bulk(void *array, void *const *in, unsigned int n)
{
	struct pcpu_array *a;
	unsigned int index, count, capacity;
	uint64_t h;

	if (!slot_enter(&index))
		return 0;
	a = pcpu_ptr(array, index);
	h = pcpu_array_header(a);
	count = pcpu_array_count(h);
	capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	if (count >= capacity)
		n = 0;
	else if (n > capacity - count)
		n = capacity - count;
	for (unsigned int i = 0; i < n; i++)
		a->slot[count + i] = in[i];
	set_header(a, h + n);
	slot_leave(index);
	return n;
}

bool pcpu_fallback_change(struct pcpu_array *a, unsigned int index, uint64_t from, uint64_t to)
{
	bool same;

	lock_note(1);
	if (!slot_trylock(index)) {
		lock_note(-1);
		return false;
	}
	same = pcpu_array_header(a) == from;
	if (same)
		set_header(a, to);
	slot_leave(index);
	return same;
}

void *pcpu_fallback_pop(void *array)
{
	void *object;

	return pcpu_fallback_pop_bulk(array, &object, 1, PCPU_POP_COUNTED) ? object : NULL;
}

bool pcpu_fallback_push(void *array, void *object)
{
	return pcpu_fallback_push_bulk(array, &object, 1) == 1;
}
