/* SPDX-License-Identifier: MIT */
/*
 * The budgets: the bytes that kmalloc's arrays, and the shared queues, may hold together, by
 * capacity.
 *
 * A CPU has one, which bounds its arrays and the queues made on it: 16 MiB, or a quarter of
 * what the program had in use lately (page/recent.c), but at most cpu_cache_bytes (less if the
 * process has no whole CPU: os/os_share.c).
 *
 * All CPUs together have one that follows what the program had in use lately: a sixteenth for
 * every array that would like to grow; 32 MiB, or half of what was in use, for arrays whose use
 * has shown that they are worth it; and as much as was in use after idle arrays gave up theirs.
 * Half, because what arrays hold is in use, too: then they hold no more than the program.
 *
 * A CPU that seldom moves objects between arrays and slabs is calm: moving takes it a fiftieth
 * of its time at most, so larger arrays would save nothing that anybody notices. Its arrays do
 * not grow beyond 1 MiB together, and those that hold more give up half in each period.
 *
 * This file keeps the account; slab_capacity.c decides which array gets room and which one
 * gives it.
 */
#include "slab/slab_budget.h"

#include "base/assert.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/recent.h"
#include "percpu/percpu_alloc.h"

enum {
	MAX_MEMBERS = 64,
	LITTLE_MIN = 1 << 20, /* bytes of all CPUs together, see most_together() */
	QUEUES_MIN = 2 << 20,
	MUCH = 16 << 20, /* bytes of a CPU; twice that for all CPUs in a small program */
	LOOK_EVERY = 32, /* a CPU looks for a new period each so many moves of objects */
	/* A CPU is calm if so many moves took so many milliseconds, several times in a row: a
	 * thread that has to wait for its CPU may look calm once. */
	PACE_MOVES = 1024,
	PACE_MS = 48,
	PACE_ROW = 3,	/* the first look of all is one of them */
	CALM = 1 << 20, /* bytes of a calm CPU */
	/* slab_budget_out(): bytes that move from one sum over all classes to the next, and in
	 * a round: the result is the largest sum of this round and the last one. So a program
	 * that frees all it has now and then is seen at its largest, if that is too much. */
	OUT_EVERY = 64 << 10,
	OUT_ROUND = 4 << 20,
};

/* Synchronization: the thread that creates a cache appends to it; nr_members with release. */
static struct kmem_cache *members[MAX_MEMBERS];
static atomic_uint nr_members;

/* Per CPU. Synchronization: any thread, relaxed. */
struct budget {
	_Atomic uint64_t used; /* bytes */
	atomic_uint hand;      /* the next member that is asked for room */
	atomic_uint asked;     /* how often an array asked for more than a little */
	atomic_uint moves;     /* of objects */
	atomic_uint period;    /* the last one in which this CPU looked */
	/* At the last look at the pace: moves; when it was, in ms; and how often in a row the
	 * CPU was slow, at most PACE_ROW. */
	atomic_uint paced, paced_ms, slow;
	/* slab_budget_out(): bytes that moved, and the largest sum in this round and in the
	 * last one. */
	atomic_uint moved_out;
	_Atomic uint64_t out, out_before;
};

static void *budget; /* per-CPU struct budget */

/* Bytes charged on all CPUs. Synchronization: any thread, relaxed; changes with capacities. */
static _Atomic uint64_t together cacheline_aligned;

bool slab_budget_init(void)
{
	if (!budget)
		budget = pcpu_alloc(sizeof(struct budget), 16);
	return budget != NULL;
}

void slab_budget_join(struct kmem_cache *s)
{
	unsigned int n = atomic_load_explicit(&nr_members, memory_order_relaxed);

	debug_assert(s->home == s && s->budgeted && n <= MAX_MEMBERS);
	if (n == MAX_MEMBERS) {
		s->budgeted = false;
		return;
	}
	members[n] = s;
	atomic_store_explicit(&nr_members, n + 1, memory_order_release);
}

unsigned int slab_budget_members(void)
{
	return atomic_load_explicit(&nr_members, memory_order_acquire);
}

struct kmem_cache *slab_budget_member(unsigned int i)
{
	debug_assert(i < atomic_load_explicit(&nr_members, memory_order_relaxed));
	return members[i];
}

unsigned int slab_budget_turn(unsigned int cpu)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	debug_assert(cpu < pcpu.nr_ids);
	return atomic_fetch_add_explicit(&b->hand, 1, memory_order_relaxed);
}

static uint64_t bytes_of(const struct kmem_cache *s, unsigned int objects)
{
	return (uint64_t)objects * s->size;
}

static size_t most_together(enum slab_budget_part part)
{
	size_t recent = page_recent_used() << page_window.page_shift;

	if (part == SLAB_BUDGET_LITTLE)
		return max_size(recent / 16, LITTLE_MIN);
	if (part == SLAB_BUDGET_QUEUES)
		return max_size(recent / 2, QUEUES_MIN);
	return max_size(part == SLAB_BUDGET_MOST ? recent : recent / 2, (size_t)2 * MUCH);
}

static bool is_calm(const struct budget *b)
{
	return atomic_load_explicit(&b->slow, memory_order_relaxed) == PACE_ROW;
}

static uint64_t most_on_cpu(const struct budget *b, enum slab_budget_part part)
{
	size_t recent = page_recent_used() << page_window.page_shift;
	uint64_t most = os_share_cache_bytes();

	if (most > MUCH)
		most = part == SLAB_BUDGET_MOST
			       ? min_size((size_t)most, max_size(recent / 4, MUCH))
			       : MUCH;
	if (is_calm(b))
		most = min_size((size_t)most, CALM);
	return part == SLAB_BUDGET_QUEUES ? most / 2 : most;
}

static void add(struct budget *b, uint64_t bytes)
{
	atomic_fetch_add_explicit(&b->used, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&together, bytes, memory_order_relaxed);
}

static void subtract(struct budget *b, uint64_t bytes)
{
	uint64_t before = atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);

	debug_assert(before >= bytes);
	(void)before;
	atomic_fetch_sub_explicit(&together, bytes, memory_order_relaxed);
}

/* Whether the budgets have room for @bytes more. */
static bool has_room(const struct budget *b, uint64_t bytes, enum slab_budget_part part)
{
	uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);

	return used + bytes <= most_on_cpu(b, part) &&
	       atomic_load_explicit(&together, memory_order_relaxed) + bytes <=
		       most_together(part);
}

bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			enum slab_budget_part part)
{
	struct budget *b = pcpu_ptr(budget, cpu);
	uint64_t bytes = bytes_of(s, objects);

	debug_assert(cpu < pcpu.nr_ids && objects);
	if (!s->budgeted)
		return true;
	/* Looks first, because all CPUs write `together`, and many charges are refused. */
	if (!has_room(b, bytes, part))
		return false;
	add(b, bytes);
	/* Others may have charged in between. */
	if (likely(has_room(b, 0, part)))
		return true;
	subtract(b, bytes);
	return false;
}

void slab_budget_exceed(struct kmem_cache *s, unsigned int cpu, unsigned int objects)
{
	debug_assert(cpu < pcpu.nr_ids);
	if (s->budgeted)
		add(pcpu_ptr(budget, cpu), bytes_of(s, objects));
}

void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects)
{
	debug_assert(cpu < pcpu.nr_ids);
	if (s->budgeted)
		subtract(pcpu_ptr(budget, cpu), bytes_of(s, objects));
}

unsigned int slab_budget_ask(unsigned int cpu)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	debug_assert(cpu < pcpu.nr_ids);
	return atomic_fetch_add_explicit(&b->asked, 1, memory_order_relaxed);
}

void slab_budget_look_at_pace(unsigned int cpu)
{
	struct budget *b = pcpu_ptr(budget, cpu);
	unsigned int moves = atomic_load_explicit(&b->moves, memory_order_relaxed);
	unsigned int n = moves - atomic_load_explicit(&b->paced, memory_order_relaxed), slow;
	uint32_t now, ms;

	debug_assert(cpu < pcpu.nr_ids);
	if (likely(n < PACE_MOVES))
		return;
	/* Another thread on this CPU may look at the same time; then a look may be lost. */
	now = (uint32_t)os_calls.now_ms();
	ms = now - atomic_load_explicit(&b->paced_ms, memory_order_relaxed);
	atomic_store_explicit(&b->paced, moves, memory_order_relaxed);
	atomic_store_explicit(&b->paced_ms, now, memory_order_relaxed);
	slow = atomic_load_explicit(&b->slow, memory_order_relaxed);
	slow = (uint64_t)ms * PACE_MOVES < (uint64_t)n * PACE_MS ? 0
								 : min_uint(slow + 1, PACE_ROW);
	atomic_store_explicit(&b->slow, slow, memory_order_relaxed);
}

struct slab_budget_surplus slab_budget_look(unsigned int cpu)
{
	struct slab_budget_surplus surplus = { 0 };
	struct budget *b = pcpu_ptr(budget, cpu);
	unsigned int moves = atomic_load_explicit(&b->moves, memory_order_relaxed), period;
	uint64_t used, all;
	size_t little;

	debug_assert(cpu < pcpu.nr_ids);
	/* Other threads on this CPU may count at the same time; then a look comes later. */
	atomic_store_explicit(&b->moves, moves + 1, memory_order_relaxed);
	if (likely(moves % LOOK_EVERY))
		return surplus;
	period = atomic_load_explicit(&page_recent.period, memory_order_relaxed);
	if (atomic_exchange_explicit(&b->period, period, memory_order_relaxed) == period)
		return surplus;
	all = slab_budget_used();
	little = most_together(SLAB_BUDGET_LITTLE);
	if (all > little)
		surplus.of_idle = all - little;
	used = atomic_load_explicit(&b->used, memory_order_relaxed);
	if (is_calm(b) && used > CALM)
		surplus.of_all = used - CALM;
	return surplus;
}

static uint64_t bytes_out(void)
{
	unsigned int n = slab_budget_members();
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < n; i++) {
		const struct kmem_cache *s = members[i];

		for (unsigned int node = 0; node < page_window.nr_nodes; node++)
			bytes += atomic_load_explicit(&s->nodes[node].inuse,
						      memory_order_relaxed) *
				 s->size;
	}
	return bytes;
}

uint64_t slab_budget_out(unsigned int cpu, unsigned int bytes)
{
	struct budget *b = pcpu_ptr(budget, cpu);
	unsigned int before = atomic_load_explicit(&b->moved_out, memory_order_relaxed);
	unsigned int now = before + bytes;
	uint64_t most = atomic_load_explicit(&b->out, memory_order_relaxed);

	debug_assert(cpu < pcpu.nr_ids);
	/* As with moves, above. */
	atomic_store_explicit(&b->moved_out, now, memory_order_relaxed);
	if (unlikely(now / OUT_ROUND != before / OUT_ROUND)) {
		atomic_store_explicit(&b->out_before, most, memory_order_relaxed);
		most = 0;
	}
	if (unlikely(!most || now / OUT_EVERY != before / OUT_EVERY)) {
		most = max_size(most, bytes_out());
		atomic_store_explicit(&b->out, most, memory_order_relaxed);
	}
	return max_size(most, atomic_load_explicit(&b->out_before, memory_order_relaxed));
}

bool slab_budget_is_used(unsigned int cpu)
{
	const struct budget *b = pcpu_ptr(budget, cpu);

	return atomic_load_explicit(&b->used, memory_order_relaxed);
}

uint64_t slab_budget_used(void)
{
	return atomic_load_explicit(&together, memory_order_relaxed);
}
