/* SPDX-License-Identifier: MIT */
/*
 * Decides how large a CPU's array of objects is.
 *
 * The capacity follows from use. It starts small and doubles whenever a refill follows a flush
 * or the other way round, because then the program allocates and frees in turn more objects
 * than the array holds. Long phases of one kind alone, for instance where one CPU allocates
 * objects that another one frees, let it grow slowly, to a modest size.
 *
 * If the program allocates many objects for each slot of the array before objects move again,
 * a larger array would save little, and only hold more memory: then it does not grow. An array
 * that lasts much longer still loses half its capacity. Arrays with few slots are let grow more
 * easily, because most slow paths are theirs.
 *
 * An array hands objects out in the reverse order of their frees. While the program frees at
 * random, the array stays small, so that most objects come from slabs, in address order.
 *
 * kmalloc's arrays share budgets (slab_budget.c). A size class that needs more than is left
 * takes it from classes that are not used: a hand goes round the classes; a class from whose
 * array nothing was popped since the hand last came by loses half its capacity, with the
 * objects above it. Busy classes keep theirs, although those that fit their arrays never come
 * here.
 */
#include "slab/slab_capacity.h"

#include <limits.h>

#include "base/assert.h"
#include "os/os_share.h"
#include "page/recent.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "percpu/register.h"
#include "slab/slab_budget.h"
#include "slab/slab_line.h"
#include "slab/slab_objects.h"
#include "slab/slab_profile.h"

/*
 * struct pcpu_array.last_move: enum slab_move in the low bits; above it how often in a row;
 * above that the batches in random order that left the array, less those in order. Threads on
 * the same CPU may write it at the same time; then one of the notes is lost.
 */
enum {
	MOVED_MASK = 3,
	MOVED_ONE = 4,
	MOVED_ROW = 15 * MOVED_ONE,
	MOVED_MIXED_ONE = 64,
	MOVED_MIXED_MAX = 3, /* batches in order until the array may grow again */
};

enum {
	MODEST = 128,		 /* slots of a modest array */
	MODEST_BYTES = 1 << 20,	 /* its bytes; a quarter for large objects */
	ONLY = 2,		 /* flushes behind a flush: the program frees alone */
	FOR_OTHERS = 4,		 /* the same: it frees what others allocate */
	STREAK_MAX = 8,		 /* moves in one direction until the array grows */
	MIXED = 512,		 /* slots of an array whose objects come in random order */
	MIXED_FROM = 2 << 20,	 /* bytes in use; smaller programs lie in a processor's cache */
	MIXED_OBJECTS = 5 << 18, /* bytes of objects; the same of programs with large blocks */
	MIXED_LARGE = 1024,	 /* for objects of so many bytes both are twice as much */
	MIXED_STEP = 64,	 /* slots that such an array gives up at a flush */
	/* Objects that lie no farther, or at most two places from each other, are near. */
	NEAR_BYTES = 256,
	JUDGED_MIN = 16, /* objects that tell an order */
	JUDGED_EACH = 3, /* one of so many is looked at; odd, since objects go in pairs */
	/* Allocations for each slot between two moves of an array that need not grow: fewer of
	 * large objects, which cost the program more than a move costs. */
	LASTS = 16,
	LASTS_BYTES = 4096,  /* the same in bytes, but at least one */
	LASTS_LONG = 4,	     /* times as many: the array can do with half its slots */
	FEW = 8,	     /* an array with fewer slots than this has few (has_few()) */
	FEW_BYTES = 1 << 16, /* the same in bytes, if that is more slots, up to MODEST */
	STEP_BYTES =
		1 << 20, /* large objects: bytes that move, or an array grows by, at once */
};

unsigned int slab_first_capacity(const struct kmem_cache *s)
{
	uint64_t budget = os_share_cache_bytes();
	unsigned int few = (unsigned int)min_size(os_share_of(4), budget >> 19);
	unsigned int bytes = (unsigned int)min_size(os_share_of(32768), budget >> 6);

	if (s->size > SLAB_MAX_SIZE)
		return 1;
	return min_uint(min_uint(max_uint(bytes / s->size, max_uint(few, 2)), 64),
			s->capacity_max);
}

unsigned int slab_step(const struct kmem_cache *s)
{
	return s->size > SLAB_MAX_SIZE ? STEP_BYTES / s->size : s->capacity_max;
}

static unsigned int in_a_row(uint8_t last)
{
	return (last & MOVED_ROW) / MOVED_ONE;
}

static unsigned int mixed(uint8_t last)
{
	return last / MOVED_MIXED_ONE;
}

/* Notes a refill or flush (@move). Result: the slots by which the array should grow. */
static unsigned int growth(const struct kmem_cache *s, struct pcpu_array *a,
			   unsigned int capacity, uint8_t move)
{
	uint8_t last = atomic_load_explicit(&a->last_move, memory_order_relaxed);
	uint8_t now = (uint8_t)(move | mixed(last) * MOVED_MIXED_ONE);
	unsigned int bytes = s->size > SLAB_MAX_SIZE ? MODEST_BYTES / 4 : MODEST_BYTES;
	unsigned int modest = min_uint(MODEST, bytes / s->size);
	unsigned int max = s->capacity_max;

	if ((last & MOVED_MASK) == move && in_a_row(last) < STREAK_MAX)
		now = (uint8_t)(last + MOVED_ONE);
	if (mixed(last))
		max = min_uint(max, MIXED);
	if (now != last)
		atomic_store_explicit(&a->last_move, now, memory_order_relaxed);
	if (!capacity)
		return slab_first_capacity(s);
	if ((last & MOVED_MASK) == SLAB_MOVED_NONE)
		return 0;
	if ((last & MOVED_MASK) == move) {
		if (in_a_row(now) < STREAK_MAX || capacity >= modest)
			return 0;
		max = min_uint(max, modest);
	}
	return capacity < max ? min_uint(min_uint(capacity, slab_step(s)), max - capacity) : 0;
}

/* The slots that every class has a right to, because an array without slots takes a lock for
 * each object. Classes of large objects have none: together they would exceed a small budget.
 */
static unsigned int guaranteed(const struct kmem_cache *s)
{
	return s->size > SLAB_MAX_SIZE ? 0 : slab_first_capacity(s);
}

void slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu)
{
	slab_budget_uncharge(s, cpu,
			     atomic_exchange_explicit(&a->capacity, 0, memory_order_seq_cst));
}

/* Sets a capacity that was charged already. False: another thread has changed it, to *@from. */
static bool widen(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu, uint16_t *from,
		  uint16_t to)
{
	debug_assert(to > *from && to <= s->capacity_max);
	if (!atomic_compare_exchange_strong_explicit(
		    &a->capacity, from, to, memory_order_seq_cst, memory_order_relaxed))
		return false;
	/* C2: the thread that closes the arrays (C1) sees this capacity, or this thread sees
	 * that they are closed. */
	if (unlikely(
		    slab_stays_closed(atomic_load_explicit(&s->checked, memory_order_seq_cst))))
		slab_close_array(s, a, cpu);
	return true;
}

/* The number of objects popped off this CPU's array since objects last moved. Notes that they
 * move now. */
static uint32_t pops_since_move(const struct kmem_cache *s, unsigned int node,
				const struct pcpu_array *a, unsigned int cpu)
{
	uint32_t *noted = &slab_note(s, node, cpu)->pops;
	uint32_t now = pcpu_array_low_pops(pcpu_array_header(a));
	uint32_t before = __atomic_load_n(noted, __ATOMIC_RELAXED);

	__atomic_store_n(noted, now, __ATOMIC_RELAXED);
	return (now - before) & PCPU_ARRAY_POPS_MASK;
}

/*
 * Whether an array has few slots. What a slow path finds cold in a processor's caches makes
 * it the slowest of a thousand operations, and most of them are those of such arrays.
 */
static bool has_few(const struct kmem_cache *s, unsigned int capacity)
{
	return capacity < min_uint(max_uint(FEW_BYTES / s->size, FEW), MODEST);
}

/* The pops after which an array of @capacity need not grow. A few pops of an array of one or
 * two slots tell nothing. */
static uint32_t enough_pops(const struct kmem_cache *s, unsigned int capacity)
{
	return max_uint(capacity, FEW) * max_uint(min_uint(LASTS_BYTES / s->size, LASTS), 1);
}

static void put_here(void *cache, void **objects, unsigned int n)
{
	slab_put(cache, objects, n, SLAB_PUT_CPU);
}

/* Gives an array that cannot do with less back up to @slots. Result: how many it gave. */
static unsigned int give_again(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu,
			       unsigned int slots)
{
	uint16_t now = atomic_load_explicit(&a->capacity, memory_order_seq_cst);

	debug_assert(slots <= PCPU_ARRAY_MAX_SLOTS);
	/* A closed array stays closed: the thread that closed it empties it. */
	while (now < slots &&
	       !slab_stays_closed(atomic_load_explicit(&s->checked, memory_order_relaxed)))
		if (widen(s, a, cpu, &now, (uint16_t)slots))
			return slots - now;
	return 0;
}

/*
 * Lowers the capacity of an array of @cpu from @capacity to @less, and puts the objects above
 * it back. Result: slots given back; negative if the array had to keep objects for which others
 * had given back the bytes.
 *
 * The thread lowers the capacity, and then finds itself on the array's CPU. So it has aborted
 * sections that were about to push there, and sections that begin later obey the new capacity:
 * the objects above it can only become fewer. Without restartable sequences a push that is
 * under way may add a batch.
 */
static int narrow(struct kmem_cache *s, void *array, unsigned int cpu, uint16_t capacity,
		  uint16_t less)
{
	struct pcpu_array *a = pcpu_ptr(array, cpu);
	unsigned int needed;
	int slots;

	debug_assert(less < capacity && less >= guaranteed(s) && pcpu_gate_depth);
	/* The thread that changes a capacity charges or uncharges exactly that change. */
	if (!atomic_compare_exchange_strong_explicit(
		    &a->capacity, &capacity, less, memory_order_relaxed, memory_order_relaxed))
		return 0;
	slots = capacity - less;
	needed = pcpu_array_reduce(array, cpu, less, put_here, s);
	if (unlikely(needed > less)) /* also UINT_MAX: the thread is on another CPU */
		slots -= (int)give_again(s, a, cpu, needed == UINT_MAX ? capacity : needed);
	/* Bytes are uncharged only here, because other threads could take bytes that the array
	 * still needs. */
	if (slots >= 0)
		slab_budget_uncharge(s, cpu, (unsigned int)slots);
	else
		slab_budget_exceed(s, cpu, (unsigned int)-slots);
	return slots;
}

/* Halves the capacity of @s on @cpu if it is idle, or @even_busy. Result: bytes given back, as
 * of narrow(). */
static int64_t take_from(struct kmem_cache *s, unsigned int node, unsigned int cpu,
			 bool even_busy)
{
	void *array = slab_array(s, node);
	struct pcpu_array *a = pcpu_ptr(array, cpu);
	uint16_t capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);

	if (capacity <= guaranteed(s))
		return 0;
	if (pcpu_array_was_used(a) && !even_busy)
		return 0;
	return (int64_t)narrow(s, array, cpu, capacity,
			       (uint16_t)max_uint(capacity / 2, guaranteed(s))) *
	       s->size;
}

/* Takes room from members that are idle, or @even_busy, until @bytes are free. */
static void reclaim(struct kmem_cache *wants, unsigned int cpu, uint64_t bytes, bool even_busy)
{
	unsigned int n = slab_budget_members();
	int64_t got = 0;

	/* One round at most, because the program must run between two looks at a class. */
	for (unsigned int i = 0; i < n && got < (int64_t)bytes; i++) {
		struct kmem_cache *s = slab_budget_member(slab_budget_turn(cpu) % n);

		for (unsigned int node = 0; s != wants && node < page_window.nr_nodes; node++)
			got += take_from(s, node, cpu, even_busy);
	}
}

/* Whether request number @n is one of four that is granted. Multiples of the golden ratio are
 * spread evenly, so classes that ask in turn, in whatever rhythm, get the same part. */
static bool is_turn(unsigned int n)
{
	return n * 2654435769u < UINT_MAX / 4;
}

/*
 * Charges @objects more in an array on @cpu. While all CPUs hold little (SLAB_BUDGET_LITTLE),
 * an array grows when it asks. Beyond, one request in four is granted: arrays whose objects
 * move all the time ask again and again, and soon have what they need; those of a program that
 * goes from one phase to the next ask seldom. @soon: the array need not ask again. Beyond
 * SLAB_BUDGET_MUCH, idle classes give up their bytes first. False: there are not enough, or not
 * now. @anyhow: never fails.
 */
static bool pay(struct kmem_cache *s, unsigned int cpu, unsigned int objects, bool soon,
		bool anyhow)
{
	uint64_t bytes = (uint64_t)objects * s->size;

	if (slab_budget_charge(s, cpu, objects, SLAB_BUDGET_LITTLE))
		return true;
	if (!soon && !is_turn(slab_budget_ask(cpu)))
		return false;
	if (slab_budget_charge(s, cpu, objects, SLAB_BUDGET_MUCH))
		return true;
	reclaim(s, cpu, bytes, false);
	if (slab_budget_charge(s, cpu, objects, SLAB_BUDGET_MOST))
		return true;
	if (!anyhow)
		return false;
	/* Every class may have its first few objects. Classes that have more give up bytes for
	 * them. */
	reclaim(s, cpu, bytes, true);
	slab_budget_exceed(s, cpu, objects);
	return true;
}

/* Once in a period: while all CPUs hold more than a little, idle classes of this CPU give up
 * half of what they have. If the CPU is calm, busy classes do so in turn. */
static void give_back(struct kmem_cache *moving, unsigned int cpu)
{
	struct slab_budget_surplus surplus = slab_budget_look(cpu);

	if (unlikely(surplus.of_idle))
		reclaim(moving, cpu, surplus.of_idle, false);
	if (unlikely(surplus.of_all))
		reclaim(moving, cpu, surplus.of_all, true);
}

void slab_look_at_pace(void)
{
	unsigned int cpu = pcpu_index();

	if (likely(cpu < pcpu.nr_ids))
		slab_budget_look_at_pace(cpu);
}

/* An array is about to be opened. The profile, if it runs, has the last word. */
static void arm_new(struct kmem_cache *s, unsigned int node, unsigned int cpu)
{
	slab_line_wind_new(s, node, cpu);
	slab_profile_arm_new(s, node, cpu);
}

unsigned int slab_tune(struct kmem_cache *s, unsigned int node, enum slab_move move)
{
	void *array = slab_array(s, node);
	unsigned int cpu = pcpu_index(), more, less;
	struct pcpu_array *a;
	uint16_t capacity;
	uint32_t pops;

	if (cpu >= pcpu.nr_ids)
		return slab_first_capacity(s);
	give_back(s, cpu);
	a = pcpu_ptr(array, cpu);
	/* A thread that empties the array has stopped it. It is neither empty nor full by use.
	 */
	if (unlikely(pcpu_array_header(a) & PCPU_ARRAY_STOP))
		return 0;
	capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	pops = pops_since_move(s, node, a, cpu);
	more = growth(s, a, capacity, (uint8_t)move);
	debug_assert(capacity + more <= s->capacity_max);
	if (capacity && pops >= enough_pops(s, capacity)) {
		less = max_uint(capacity / 2, slab_first_capacity(s));
		/* The array is empty, so no object has to leave it. */
		if (move == SLAB_MOVED_REFILL && less < capacity &&
		    pops / LASTS_LONG >= enough_pops(s, capacity))
			narrow(s, array, cpu, capacity, (uint16_t)less);
		return atomic_load_explicit(&a->capacity, memory_order_relaxed);
	}
	if (!more || !pay(s, cpu, more, has_few(s, capacity), !capacity && guaranteed(s)))
		return capacity;
	if (!capacity)
		arm_new(s, node, cpu);
	if (!widen(s, a, cpu, &capacity, (uint16_t)(capacity + more))) {
		slab_budget_uncharge(s, cpu, more);
		return capacity;
	}
	return atomic_load_explicit(&a->capacity, memory_order_relaxed);
}

/* How often this CPU's @array was flushed since it was last filled, STREAK_MAX at most. */
static unsigned int flushes_in_a_row(void *array)
{
	unsigned int cpu = pcpu_index();
	uint8_t last;

	if (cpu >= pcpu.nr_ids)
		return 0;
	last = atomic_load_explicit(&((struct pcpu_array *)pcpu_ptr(array, cpu))->last_move,
				    memory_order_relaxed);
	return (last & MOVED_MASK) == SLAB_MOVED_FLUSH ? in_a_row(last) : 0;
}

bool slab_only_frees(void *array)
{
	return flushes_in_a_row(array) >= ONLY;
}

bool slab_frees_for_others(void *array)
{
	return flushes_in_a_row(array) >= FOR_OTHERS;
}

enum slab_order slab_order_of(const struct kmem_cache *s, void *const *objects, unsigned int n)
{
	uintptr_t near = max_uint(NEAR_BYTES, 2 * s->size);
	unsigned int far = 0, judged = 0;

	debug_assert(n);
	for (unsigned int i = 1; i < n; i += JUDGED_EACH, judged++)
		far += (uintptr_t)objects[i] - (uintptr_t)objects[i - 1] + near > 2 * near;
	if (n < JUDGED_MIN || far <= judged / 4)
		return SLAB_IN_ORDER;
	return far < judged - judged / 4 ? SLAB_MIXED : SLAB_SCATTERED;
}

/* Whether all the program's objects are near, wherever they lie: it is small, or has large
 * blocks and few objects. It may be twice as large for objects of which a slab has few: to pass
 * the slabs costs more, and a step to such an object waits for its line in any order. */
static bool is_small(const struct kmem_cache *s, unsigned int cpu, unsigned int n)
{
	unsigned int times = s->size >= MIXED_LARGE ? 2 : 1;

	return page_recent_used() << page_window.page_shift < (size_t)times * MIXED_FROM ||
	       slab_budget_out(cpu, n * s->size) < (uint64_t)times * MIXED_OBJECTS;
}

static void set_scattered(struct kmem_cache *s, bool scattered)
{
	if (unlikely(atomic_load_explicit(&s->scattered, memory_order_relaxed) != scattered))
		atomic_store_explicit(&s->scattered, scattered, memory_order_relaxed);
}

void slab_note_order(struct kmem_cache *s, void *array, enum slab_order order, unsigned int n)
{
	unsigned int cpu = pcpu_index(), level;
	struct pcpu_array *a;
	uint16_t capacity;
	uint8_t last;

	if (cpu >= pcpu.nr_ids)
		return;
	a = pcpu_ptr(array, cpu);
	last = atomic_load_explicit(&a->last_move, memory_order_relaxed);
	level = mixed(last);
	if (order == SLAB_IN_ORDER || is_small(s, cpu, n)) {
		if (unlikely(level))
			atomic_store_explicit(&a->last_move, (uint8_t)(last - MOVED_MIXED_ONE),
					      memory_order_relaxed);
		set_scattered(s, false);
		return;
	}
	set_scattered(s, order == SLAB_SCATTERED);
	if (level < MOVED_MIXED_MAX)
		atomic_store_explicit(&a->last_move, (uint8_t)(last + MOVED_MIXED_ONE),
				      memory_order_relaxed);
	capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	if (capacity > MIXED)
		narrow(s, array, cpu, capacity,
		       (uint16_t)max_uint(capacity - MIXED_STEP, MIXED));
}
