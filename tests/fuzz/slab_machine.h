/* SPDX-License-Identifier: MIT */
/*
 * Threads' random steps over some caches, beside a model: which objects are whose, what is in
 * them, how many each cache has handed out.
 */
#ifndef FUZZ_SLAB_MACHINE_H
#define FUZZ_SLAB_MACHINE_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "settings.h"
#include "shadow.h"

extern "C" {
#include "slab_shim.h"
}

namespace fuzz
{

struct SlabSettings {
	unsigned nodes; /* by numa_fake */
	bool faults;	/* system calls fail */
	bool roomy;	/* nothing fails, and memory is more than is used */
	std::string conf;
};

constexpr int kConstructed = 0xc5; /* each byte of a constructed object */
constexpr size_t kCaches = 6;

/* CPUs that are online, a bit each, as the system pretends. */
extern std::atomic<unsigned long> online_cpus;

struct SlabCache;

struct Object {
	char *p;
	SlabCache *cache;
	uint64_t id; /* its contents follow from it */
};

/* A cache and what the model knows of it. */
struct SlabCache {
	struct kmem_cache *s;
	unsigned size, align;
	slab_flags_t flags;
	bool ctor;
	std::atomic<long> handed{ 0 }; /* objects that threads have, in sheaves or not */
	std::set<char *> past;	       /* freed objects, with SLAB_TYPESAFE_BY_RCU */
};

class SlabMachine;

/* The caches, and what all threads together have of them (slab_world.cpp). */
class SlabWorld
{
      public:
	SlabWorld(const SlabSettings &settings, uint64_t seed, unsigned threads);
	~SlabWorld();
	void run(unsigned thread, uint64_t steps);
	/* Frees everything, whichever thread has it, and destroys the caches. */
	void end();

      private:
	friend class SlabMachine;

	std::unique_ptr<SlabCache> make_cache(Random &random);
	void check(SlabCache &c);
	/* An object is in use from now on, or no longer. With one thread they know the
	 * addresses in use, and look for overlaps. */
	void claim(const Object &o);
	void drop(const Object &o);

	SlabSettings settings_;
	bool alone_;
	std::vector<std::unique_ptr<SlabCache>> caches_;
	std::map<char *, size_t> owned_;
	std::vector<std::unique_ptr<SlabMachine>> machines_;
	std::mutex mailbox_lock_; /* of mailbox_ */
	std::vector<Object> mailbox_;
	unsigned names_ = 0;
};

/* One thread's random steps (slab_machine.cpp). */
class SlabMachine
{
      public:
	SlabMachine(SlabWorld &world, uint64_t seed, unsigned thread);
	void run(uint64_t steps);
	void free_all();

      private:
	struct Sheaf {
		struct slab_sheaf *sheaf;
		SlabCache *cache;
		unsigned size;
	};

	void step();
	void rare_step();
	SlabCache &pick();
	gfp_t pick_flags();
	bool may_fail(gfp_t flags) const;

	void allocate(SlabCache &c, gfp_t flags);
	void allocate_node(SlabCache &c, gfp_t flags);
	void allocate_bulk(SlabCache &c, gfp_t flags);
	void sheaf_step(SlabCache &c, gfp_t flags);
	void take(SlabCache &c, char *p, bool zeroed);
	Object leave(size_t i);
	void give_up(const Object &o);
	void release(const Object &o);
	void free_one();
	void free_bulk();
	void free_mixed();
	void return_sheaf(size_t i);
	void exchange();
	void with_lock_taken(SlabCache &c);
	void shrink(SlabCache &c);
	void destroy(size_t i);
	void change_online();
	void move();

	SlabWorld &world_;
	Random random_;
	std::vector<int> cpus_;
	std::vector<Object> live_;
	std::vector<Sheaf> sheaves_;
	uint64_t next_id_;
	size_t level_ = 200;
};

} // namespace fuzz

#endif
