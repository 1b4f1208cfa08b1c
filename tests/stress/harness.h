/* SPDX-License-Identifier: MIT */
/* Inside of the harness; variants need stress.h only. */
#ifndef STRESS_HARNESS_H
#define STRESS_HARNESS_H

#include <pthread.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ukmem/ukmem.h>

#include "stress/block.h"
#include "stress/stress.h"

namespace stress
{

constexpr unsigned NR_CACHES = 7, CTOR_SIZE = 136, INBOX_BULK = 24;

/* Blocks on their way to another thread. */
class Queue
{
      public:
	bool push(const Block &b); /* false: full */
	bool pop(Block &b);

      private:
	static constexpr size_t LIMIT = 256;
	std::mutex mutex_;
	std::deque<Block> blocks_;
};

/* What a thread's signal handler allocated, for the thread to free: one writer, one reader. */
struct Inbox {
	static constexpr unsigned SIZE = 256;
	Block blocks[SIZE];
	std::atomic<unsigned> head{ 0 }, tail{ 0 }; /* written by handler, by thread */
	uint64_t signals = 0, got = 0;
	uint64_t cache_allocs[NR_CACHES] = {};
	uint64_t cache_refused[NR_CACHES] = {}; /* in bulk: some may have come and gone */
	Random random{ 99 };

	void put(Block b);
};

extern thread_local Inbox *volatile inbox_of_this_thread;

struct Worker {
	Worker(const Plan &plan, unsigned id_, unsigned generation)
	    : id(id_), random(plan.seed * 1000003 + id_ * 4099u + generation), live(plan.slots)
	{
	}

	unsigned id;
	Random random;
	std::vector<Block> live;
	uint64_t sequence = 0, made = 0;
	uint64_t cache_allocs[NR_CACHES] = {}, cache_frees[NR_CACHES] = {};
};

struct CacheCounts {
	uint64_t inuse, cached, slabs, allocs, frees;
};

/* The statistics at one time. */
struct Snapshot {
	std::map<std::string, CacheCounts> caches;
	unsigned duplicates; /* caches of the same name */
	uint64_t large_allocs, large_frees, large_bytes;
	ukmem_gauges gauges;

	void take();
};

class Harness
{
      public:
	explicit Harness(const Plan &plan);
	void run(double time);

	/* Called by the signal handler. */
	void on_signal(Inbox &inbox);

      private:
	/* a worker's steps */
	void work(unsigned id);
	void enter(Worker &w);
	void leave(Worker &w);
	void step(Worker &w);
	void make(Worker &w, Block &b);
	void make_bulk(Worker &w);
	static size_t alignment(const Block &b);
	unsigned any_cache(Random &random) const;
	void adopt(Worker &w, Block &b);
	void adopt_cached(Worker &w, Block &b, unsigned which);
	void release(Worker &w, Block &b);
	void release_bulk(Worker &w);
	void resize(Worker &w, Block &b);
	void empty_inbox(Worker &w);

	/* disturbers (disturb.cpp) */
	void start_disturbers(std::vector<std::thread> &threads);
	void trim();
	void observe();
	void migrate();
	void send_signals();
	void fork_children();
	void make_caches();

	void check_end(const Snapshot &before);
	void destroy_caches();

	const Plan plan_;
	std::atomic<bool> stop_{ false };
	kmem_cache *caches_[NR_CACHES];
	std::vector<Queue> queues_;
	std::vector<Inbox> inboxes_;

	std::mutex handles_mutex_;	 /* the rest */
	std::vector<pthread_t> handles_; /* of the workers in present_ */
	std::set<unsigned> present_;
	uint64_t made_ = 0, cache_allocs_[NR_CACHES] = {}, cache_frees_[NR_CACHES] = {};
};

} // namespace stress

#endif
