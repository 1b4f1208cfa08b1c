/* SPDX-License-Identifier: MIT */
/*
 * One thread's random steps over the page allocator, beside the shadow model: what it asks
 * for, what must be true of each answer, and what of all zones together.
 */
#ifndef FUZZ_MACHINE_H
#define FUZZ_MACHINE_H

#include <atomic>
#include <mutex>
#include <vector>

#include "settings.h"
#include "shadow.h"
#include "ukmem/mempolicy.h"
#include "ukmem/shrinker.h"

namespace fuzz
{

using Nodes = unsigned long; /* a bit each */

/* Facts that do not change after the library's initialisation. */
struct World {
	Settings settings;
	unsigned nodes, zones;
	std::vector<fuzz_zone> zone;
	std::vector<bool> reachable; /* zones that have memory at all */
	fuzz_limits limits;
	size_t block; /* pages by which a zone grows at least */
	bool alone;   /* one thread: the model knows everything */
};

extern World world;
void world_init(const Settings &settings, bool alone);
/* Checks that all zones are as the shadow says. No other thread may run. */
void check_zones();
/* Checks the zones after everything was freed and purged. */
void check_empty();

/* A request, and how it was before it. */
struct Request {
	gfp_t flags;
	size_t npages;
	unsigned order; /* 0 for exact sizes */
	Nodes nodes;	/* it may be served from */
	unsigned preferred;
	bool interleaved;
	/* Filled in by begin(). */
	unsigned failures;
	uint64_t nested;
	size_t used_all;
	size_t used[kMaxZones];

	/* With several nodes: of any, when those it is for have nothing. */
	bool may_leave() const
	{
		return (flags & (__GFP_HIGH | __GFP_DIRECT_RECLAIM | __GFP_THISNODE)) ==
		       __GFP_HIGH;
	}
	bool may_block() const
	{
		return flags & __GFP_DIRECT_RECLAIM;
	}
	zone_type type() const
	{
		return flags & __GFP_DMA     ? ZONE_DMA
		       : flags & __GFP_DMA32 ? ZONE_DMA32
					     : ZONE_NORMAL;
	}
};

/* The model's expectation of the counters of NUMA events, for one thread alone. */
extern uint64_t expected_numa[4];

class Machine
{
      public:
	Machine(uint64_t seed, unsigned thread);
	~Machine();
	void run(uint64_t steps);
	void free_all();

      private:
	struct Policy {
		struct mempolicy *pol;
		int mode;
		std::vector<unsigned> nodes;
		uint32_t next;
	};

	struct Holder : shrinker {
		Machine *machine;
	};

	/* machine.cpp: what to do. */
	void step();
	void rare_step();
	void choose_level();
	void move();
	void tick();
	void change_allowed();
	void change_policy();
	void free_some(unsigned n);
	void with_lock_taken();

	/* requests.cpp: asking. */
	void allocate();
	gfp_t pick_flags();
	unsigned pick_order();
	unsigned local_node() const;
	Request plain_request(gfp_t flags, unsigned order);
	void request_pages(gfp_t flags);
	void request_node(gfp_t flags);
	void request_mask(gfp_t flags);
	void request_policy(gfp_t flags);
	void request_bulk(gfp_t flags);
	void request_exact(gfp_t flags);
	void policy_nodes(Policy &p, Request &request);
	void release(Run run);
	void hold(const Run &run);
	static unsigned long count_held(shrinker *s, shrink_control *sc);
	static unsigned long scan_held(shrinker *s, shrink_control *sc);

	/* judge.cpp: what is right. */
	void begin(Request &request);
	bool end(const Request &request, struct page *page, How how);
	void judge_place(const Request &request, const Run &run);
	void judge_levels(const Request &request, unsigned zone);
	void judge_refusal(const Request &request);
	bool zone_has_room(const Request &request, unsigned zone);
	void count_numa(const Request &request, unsigned zone);
	void judge_compound(const Run &run);

	Random random_;
	unsigned thread_;
	std::vector<int> cpus_;
	std::vector<Run> live_;
	std::vector<Policy> policies_;
	uint32_t next_id_;
	uint64_t requests_ = 0, refused_ = 0;
	size_t level_ = 0;
	std::atomic<size_t> pages_{ 0 }; /* what it holds; others' reclaims free some */
	bool in_reclaim_ = false;
	Holder holder_;
	std::mutex held_lock_; /* of held_, scans_ */
	std::vector<Run> held_;
	unsigned scans_ = 0;
};

} // namespace fuzz

#endif
