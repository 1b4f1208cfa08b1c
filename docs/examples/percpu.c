/* SPDX-License-Identifier: MIT */
/* Data of which each CPU has a copy. */
#define _GNU_SOURCE
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <ukmem/percpu.h>

struct traffic {
	unsigned long packets, bytes;
};

DECLARE_PER_CPU(unsigned long, requests);
DEFINE_PER_CPU(unsigned long, requests);
static DEFINE_PER_CPU_ALIGNED(struct traffic, traffic);
static DEFINE_PER_CPU(unsigned int, state);
static DEFINE_PER_CPU(unsigned int, other);
/* Two words that change together are aligned together. */
static DEFINE_PER_CPU_ALIGNED(
	struct {
		uint64_t list;
		uint64_t version;
	},
	pair);

/* Counters: any thread adds, any thread reads the sum. */
static void counters(void)
{
	this_cpu_inc(requests);
	this_cpu_add(traffic.bytes, 1500);
	this_cpu_sub(traffic.bytes, 500);
	this_cpu_dec(requests);
	assert(per_cpu_sum(traffic.bytes) == 1000 && per_cpu_sum(requests) == 0);
}

/* Operations with a result. */
static void results(void)
{
	unsigned int seen = this_cpu_read(state), old;

	this_cpu_write(state, seen + 1);
	old = this_cpu_xchg(state, 7);
	old = this_cpu_cmpxchg(state, 7, old);
	(void)this_cpu_add_return(state, 2);
	(void)this_cpu_sub_return(state, 2);
	(void)this_cpu_inc_return(state);
	(void)this_cpu_dec_return(state);
	this_cpu_or(state, 8);
	this_cpu_and(state, 15);
	this_cpu_xor(state, 1);
}

/* A maximum: the loop goes on with the value that the failed exchange saw. */
static void note_maximum(unsigned int value)
{
	unsigned int seen = this_cpu_read(other);

	while (seen < value && !this_cpu_try_cmpxchg(other, &seen, value))
		continue;
}

/* Two adjacent words at once. */
static void two_words(void)
{
	uint64_t list = this_cpu_read(pair.list), version = this_cpu_read(pair.version);

	this_cpu_cmpxchg_double(pair.list, pair.version, list, version, list + 1, version + 1);
}

/* Memory for each CPU while the program runs. */
static void while_it_runs(void)
{
	struct traffic *t = alloc_percpu(struct traffic);
	struct traffic *soon = alloc_percpu_gfp(struct traffic, GFP_NOWAIT);
	void *raw = __alloc_percpu(256, 64),
	     *raw_soon = __alloc_percpu_gfp(256, 64, GFP_NOWAIT);

	assert(t);
	this_cpu_inc(t->packets);
	assert(per_cpu_sum(t->packets) == 1);
	free_percpu(raw_soon);
	free_percpu(raw);
	free_percpu(soon);
	free_percpu(t);
}

/* All copies, one after the other. */
static void all_copies(void)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) sum +=
		*per_cpu_ptr(&requests, cpu) + per_cpu(traffic, cpu).packets;
	printf("%u copies, indices below %u, this CPU's %u, sum %lu\n", num_possible_cpus(),
	       percpu_nr_ids(), raw_smp_processor_id(), sum);
}

/* The address of this CPU's copy; the thread may move on meanwhile. */
static void addresses(void)
{
	struct traffic *t = this_cpu_ptr(&traffic), *same = raw_cpu_ptr(&traffic);

	(void)t;
	(void)same;
}

/* Counts that may lose an update now and then. */
static void roughly(void)
{
	unsigned int seen = 0;

	raw_cpu_write(other, seen);
	raw_cpu_inc(other);
	raw_cpu_dec(other);
	raw_cpu_add(other, 2);
	raw_cpu_sub(other, 1);
	raw_cpu_and(other, 3);
	raw_cpu_or(other, 4);
	raw_cpu_xor(other, 4);
	seen = raw_cpu_read(other);
	seen = raw_cpu_add_return(other, 1) + raw_cpu_sub_return(other, 1);
	seen += raw_cpu_inc_return(other) + raw_cpu_dec_return(other);
	seen = raw_cpu_xchg(other, 0);
	seen = raw_cpu_cmpxchg(other, 0, 1);
	raw_cpu_try_cmpxchg(other, &seen, 2);
	raw_cpu_cmpxchg_double(pair.list, pair.version, 0, 0, 1, 1);
}

/* A thread that owns its CPU, as of a data plane, needs no section: plain loads and stores. */
static void as_owner(void)
{
	unsigned int seen;

	if (percpu_owner_enter())
		return;
	seen = __this_cpu_read(state);
	__this_cpu_write(state, seen);
	__this_cpu_inc(state);
	__this_cpu_dec(state);
	__this_cpu_add(state, 2);
	__this_cpu_sub(state, 2);
	__this_cpu_and(state, 255);
	__this_cpu_or(state, 1);
	__this_cpu_xor(state, 1);
	seen = __this_cpu_add_return(state, 1) + __this_cpu_sub_return(state, 1);
	seen += __this_cpu_inc_return(state) + __this_cpu_dec_return(state);
	seen = __this_cpu_xchg(state, 5);
	seen = __this_cpu_cmpxchg(state, 5, 6);
	__this_cpu_try_cmpxchg(state, &seen, 7);
	__this_cpu_cmpxchg_double(pair.list, pair.version, 0, 0, 1, 1);
	get_cpu_ptr(&traffic)->packets++;
	put_cpu_ptr(&traffic);
	percpu_owner_exit();
}

static void cpu_gone(unsigned int cpu, void *arg)
{
	(void)arg;
	printf("CPU %u is gone\n", cpu);
}

/* What a CPU held is taken when it goes offline. */
static void cpus_that_come_and_go(void)
{
	struct percpu_notifier notifier = { .offline = cpu_gone };

	percpu_notifier_register(&notifier);
	percpu_cpus_update();
	percpu_notifier_unregister(&notifier);
}

/* How the operations work here, and why so. */
static void mode(void)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	printf("%s: %s, index %s\n", info.mode_name, info.reason, info.index_kind);
}

int main(void)
{
	cpu_set_t here;

	mode();
	counters();
	results();
	note_maximum(3);
	two_words();
	while_it_runs();
	all_copies();
	addresses();
	roughly();
	cpus_that_come_and_go();
	/* An owner is pinned to one CPU. */
	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	if (!sched_setaffinity(0, sizeof(here), &here))
		as_owner();
	return 0;
}
