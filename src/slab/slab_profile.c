/* SPDX-License-Identifier: MIT */
/*
 * Chooses the allocations that the heap profile samples.
 *
 * Each byte that a program allocates is a sample point with the same probability, independent
 * of all others: gaps between them are exponentially distributed. An allocation with one or
 * more points in it is a sample. So an allocation of @size bytes is a sample with probability
 * p = 1 - exp(-size / interval), whoever makes it, and between two samples of one cache there
 * are as many others as a gap has whole objects: a geometric distribution.
 *
 * That number is drawn beforehand, for each CPU's array, and becomes the array's countdown
 * (percpu/array_wind.c): so many pops succeed, and the next one fails. The allocation that
 * finds the countdown run out is the sample. Pushes have no part in it, so it does not matter
 * what is freed between. The mark in the header says that a sample is due. Without it, all
 * that is known is that the pops until now were none: the number drawn was at least the
 * longest countdown, or nothing was drawn. The distribution has no memory, so the next draw
 * begins anew.
 *
 *   1. An array has a countdown from when it is opened: before its first push, or when sampling
 *	begins. Before that an allocation is a draw of its own, with the same p.
 *   2. An allocation that finds the array empty goes by the countdown, too, as if it had been a
 *	pop. (Were it a draw of its own, it would have two chances: the sample that is due, and
 *	that draw.) With that the countdown is drawn anew, which changes nothing, since what is
 *	left of it has the same distribution as the whole. While it cannot be, because the array
 *	is stopped or its slot is busy, an allocation is a draw of its own.
 *   3. A winding may be undone by a section that was under way on another CPU (array_wind.c).
 *	When sampling begins, all countdowns are drawn twice, with a membarrier between, so
 *	each is wound at least once. Later only this CPU's is wound.
 *   4. Of two threads of a CPU that find the same countdown run out, one winds it; it has the
 *	sample, and the other one pops.
 *   5. A countdown without the mark may end anywhere, as long as what is drawn has no part
 *	in the choice of that place. While KFENCE wants an object, countdowns are short, so it
 *	soon sees an allocation that is no sample.
 *   6. KFENCE serves only allocations that a draw has shown to be no samples. So it takes
 *	nothing from a site's part, however it chooses. Such an allocation pops nothing: if the
 *	draw became the countdown, it is one of those drawn, and is left out.
 *   7. The mean may change at any time (profile/cost.c doubles and halves it: a level is the
 *	number of doublings), as long as what was drawn has no part in it. A countdown is of the
 *	level at which it was drawn, and the array's note keeps that level. Its allocations have
 *	the probability p(k) of that level k, so its sample counts for 1 / p(k) allocations.
 *	Readers know one mean, that of level 0. So the sample is recorded as w of level 0:
 *
 *	    w = p(0) / p(k) = (1 - q^(2^k)) / (1 - q) = product of 1 + q^(2^j), j = 0 .. k - 1
 *
 *	with q = exp(-size / (interval * 2^k)). A whole number of samples is recorded, drawn so
 *	that its mean is w. The winner of a winding writes the level after the countdown. A
 *	thread of the same CPU that uses that countdown up in between finds the level before,
 *	which is another one only if the mean has just changed.
 *
 * A sample is no object of the cache but a block of whole pages, as in jemalloc. The array map
 * has no entry for it, so its free takes the slow path, and other frees do as ever.
 */
#include "slab/slab_profile.h"

#include "base/bits.h"
#include "kfence/kfence.h"
#include "percpu/array_wind.h"
#include "percpu/register.h"

/* A slow path in so many allocations costs little, for the short time that KFENCE waits. */
enum { TICKS_TO_KFENCE = 16 };

struct slab_profile slab_profile;

/* Synchronization: relaxed. */
static _Atomic uint64_t random_state;

void slab_profile_seed(uint64_t seed)
{
	atomic_fetch_xor_explicit(&random_state, seed, memory_order_relaxed);
}

/* Each call takes a state that no other call gets, so the generator needs no lock. */
static uint64_t random_bits(void)
{
	uint64_t x = atomic_fetch_add_explicit(&random_state, 0x9e3779b97f4a7c15,
					       memory_order_relaxed);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* The natural logarithm of @m * 2^@e, 1 <= m < 2, with an error below 1e-8. */
static double log_of(double m, int e)
{
	double s, s2;

	if (m > 1.4142135623730951) {
		m /= 2;
		e++;
	}
	s = (m - 1) / (m + 1);
	s2 = s * s;
	return e * 0.6931471805599453 +
	       2 * s * (1 + s2 * (1.0 / 3 + s2 * (1.0 / 5 + s2 * (1.0 / 7 + s2 / 9))));
}

/* A uniform number in (0, 1), as m * 2^e. */
static double uniform(int *e)
{
	uint64_t u = random_bits() >> 11 | 1; /* 53 bits */
	int top = (int)ilog2(u);

	*e = top - 53;
	return (double)u / (double)((uint64_t)1 << top);
}

static double mean_of(unsigned int level)
{
	return (double)(atomic_load_explicit(&slab_profile.interval, memory_order_relaxed)
			<< level);
}

uint64_t slab_profile_gap(unsigned int level)
{
	int e;
	double m = uniform(&e);

	return (uint64_t)(mean_of(level) * -log_of(m, e));
}

/* e^-@x for @x >= 0, with an error below 1e-7. */
static double exp_of(double x)
{
	unsigned int squares = 0;
	double e;

	if (x > 30)
		return 0;
	while (x > 1.0 / 16) {
		x /= 2;
		squares++;
	}
	e = 1 - x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
	while (squares--)
		e *= e;
	return e;
}

unsigned int slab_profile_weight(uint64_t bytes, unsigned int level)
{
	double w = 1, q, rest;

	if (likely(!level))
		return 1;
	q = exp_of((double)bytes / mean_of(level));
	for (unsigned int j = 0; j < level; j++, q *= q)
		w *= 1 + q;
	rest = w - (double)(unsigned int)w;
	return (unsigned int)w +
	       (rest * (double)((uint64_t)1 << 53) > (double)(random_bits() >> 11));
}

struct slab_next slab_profile_next(const struct kmem_cache *s)
{
	unsigned int level = slab_profile_level();

	return (struct slab_next){ slab_profile_gap(level) / slab_object_bytes(s), level };
}

/* The most allocations that a countdown counts: few, while KFENCE waits for one. */
static unsigned int longest(void)
{
	return kfence_gate_is_open() ? TICKS_TO_KFENCE : PCPU_ARRAY_TICKS;
}

/* The level at which an array's countdown was drawn. */
static unsigned int noted_level(const struct kmem_cache *s, unsigned int node, unsigned int cpu)
{
	return __atomic_load_n(&slab_note(s, node, cpu)->level, __ATOMIC_RELAXED);
}

/* Winds a countdown of allocations that are no samples, and one that is. */
static bool wind(struct kmem_cache *s, unsigned int node, unsigned int cpu, uint64_t header,
		 struct slab_next next)
{
	unsigned int most = longest();
	/* Where the countdown ends earlier, the allocation behind it is drawn anew. */
	bool sample = next.others < most;

	if (!pcpu_array_wind_cpu(slab_array(s, node), cpu, header,
				 sample ? (unsigned int)next.others : most, sample))
		return false;
	__atomic_store_n(&slab_note(s, node, cpu)->level, next.level, __ATOMIC_RELAXED);
	return true;
}

struct slab_draw slab_profile_draw(const struct kmem_cache *s, unsigned int node,
				   uint64_t header)
{
	struct slab_draw d = { .sample = header & PCPU_ARRAY_MARK, .cpu = pcpu_index() };

	if (d.sample && d.cpu < pcpu.nr_ids)
		d.level = noted_level(s, node, d.cpu);
	d.next = slab_profile_next(s);
	/* The countdown ended before a sample was due. So this allocation is the first one of
	 * those that the new number counts. */
	if (!d.sample && !d.next.others) {
		d.sample = true;
		d.level = d.next.level;
		d.next = slab_profile_next(s);
	}
	return d;
}

bool slab_profile_wind(struct kmem_cache *s, unsigned int node, uint64_t header,
		       const struct slab_draw *draw)
{
	return draw->cpu < pcpu.nr_ids && wind(s, node, draw->cpu, header, draw->next);
}

/* Whether an array has a countdown that was drawn: an open array has one. */
static bool is_armed(const struct pcpu_array *a)
{
	return atomic_load_explicit(&a->capacity, memory_order_relaxed) ||
	       pcpu_array_count(pcpu_array_header(a));
}

/* Draws and winds an array's countdown. Tries again if a thread uses the array meanwhile, but
 * not if the array is stopped. */
static void arm(struct kmem_cache *s, unsigned int node, unsigned int cpu)
{
	uint64_t h;

	do {
		h = pcpu_array_header(pcpu_ptr(slab_array(s, node), cpu));
	} while (!(h & PCPU_ARRAY_STOP) && !wind(s, node, cpu, h, slab_profile_next(s)) &&
		 pcpu_use_rseq());
}

struct slab_next slab_profile_take(struct kmem_cache *s, unsigned int node)
{
	struct slab_next drawn = slab_profile_next(s), left;
	unsigned int cpu = pcpu_index();
	void *array = slab_array(s, node);
	uint64_t h;

	if (cpu >= pcpu.nr_ids || !is_armed(pcpu_ptr(array, cpu)))
		return drawn;
	do {
		left.level = noted_level(s, node, cpu);
		h = pcpu_array_header(pcpu_ptr(array, cpu));
		left.others = pcpu_array_left(h);
		if (!(h & PCPU_ARRAY_STOP) && wind(s, node, cpu, h, slab_profile_next(s))) {
			if (h & PCPU_ARRAY_MARK)
				return left;
			drawn.others += left.others;
			return drawn;
		}
	} while (!(h & PCPU_ARRAY_STOP) && pcpu_use_rseq());
	return drawn;
}

void slab_profile_arm_new(struct kmem_cache *s, unsigned int node, unsigned int cpu)
{
	if (slab_profile_has(s))
		arm(s, node, cpu);
}

void slab_profile_arm_all(struct kmem_cache *s)
{
	for (unsigned int node = 0; node < page_window.nr_nodes; node++) {
		void *array = slab_array(s, node);

		for_each_cpu_unit (cpu)
			if (is_armed(pcpu_ptr(array, cpu)))
				arm(s, node, cpu);
	}
}

void *slab_profile_sample(struct kmem_cache *s, unsigned int level, gfp_t flags,
			  const void *caller)
{
	slab_sample_function *sample =
		atomic_load_explicit(&slab_profile.sample, memory_order_relaxed);
	void *obj = sample(slab_object_bytes(s), level, flags | s->gfp, caller);

	if (obj && s->ctor)
		s->ctor(obj);
	return obj;
}

bool slab_profile_free(struct kmem_cache *s, void *obj)
{
	slab_sample_free_function *free =
		atomic_load_explicit(&slab_profile.free, memory_order_relaxed);

	return free && free(slab_object_bytes(s), obj, s->init & SLAB_INIT_FREE);
}
