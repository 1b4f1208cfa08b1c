/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "faults.h"

extern "C" {
#include "page_shim.h"
}

namespace fuzz
{

Machine::Machine(uint64_t seed, unsigned thread)
    : random_(seed * 64 + thread), thread_(thread), cpus_(allowed_cpus()),
      next_id_(thread << 28)
{
	holder_.count_objects = count_held;
	holder_.scan_objects = scan_held;
	holder_.batch = static_cast<long>(random_() % 3 * 5);
	holder_.seeks = static_cast<int>(random_() % 2 * 2);
	holder_.machine = this;
	register_shrinker(&holder_, "fuzz");
	policies_.resize(6);
	for (auto &p : policies_)
		p = { nullptr, MPOL_DEFAULT, {}, 0 };
	for (unsigned i = 0; i < 12; i++)
		change_policy();
	choose_level();
}

Machine::~Machine()
{
	unregister_shrinker(&holder_);
	for (auto &p : policies_)
		mpol_put(p.pol);
}

void Machine::run(uint64_t steps)
{
	failures_random = random_() | 1;
	move();
	for (uint64_t i = 0; i < steps; i++) {
		step_number = i;
		step();
		if (world.alone && i % 4096 == 4095)
			check_zones();
	}
}

void Machine::free_all()
{
	std::vector<Run> held;

	{
		std::lock_guard<std::mutex> guard(held_lock_);
		held.swap(held_);
	}
	for (const Run &run : held)
		release(run);
	free_some(static_cast<unsigned>(live_.size()));
}

/* How many pages there are to be, for a while: mostly below the limit, at times above. */
void Machine::choose_level()
{
	size_t most = world.limits.limit;

	level_ = most / 64 * (random_() % 70);
	if (random_() % 4 == 0) /* at the limit, where things go wrong */
		level_ = most - most / 16 + random_() % (most / 10);
	refused_ = 0;
}

void Machine::step()
{
	uint64_t what = random_() % 1024;
	bool full = pages_ >= level_;

	if (what < 8)
		rare_step();
	else if (what < 12)
		move();
	else if (what < 16)
		tick();
	else if (what < 20 && !live_.empty())
		shadow.check(live_[random_() % live_.size()]);
	else if (what < 22)
		choose_level();
	else if (what < (full ? 420 : 620))
		allocate();
	else
		free_some(random_() % 64 ? 1 : random_() % 64);
	/* A long time at the limit costs more than it finds. */
	if (refused_ > 40)
		choose_level();
}

void Machine::rare_step()
{
	uint64_t what = random_() % 64;
	unsigned zone = static_cast<unsigned>(random_() % world.zones);

	if (what < 2) {
		shim_trim(what);
	} else if (what < 8) {
		fuzz_drain(zone);
	} else if (what < 14) {
		fuzz_decay();
	} else if (what < 18) {
		change_policy();
	} else if (what < 20) {
		change_allowed();
	} else if (what < 22) {
		unregister_shrinker(&holder_);
		register_shrinker(&holder_, "fuzz again");
	} else if (what < 40) {
		with_lock_taken();
	}
}

void Machine::tick()
{
	now_ms += random_() % 4 ? random_() % 40 : random_() % 3000;
	if (random_() % 2)
		fuzz_decay();
}

/* To another CPU, and to the node of yet another one. */
void Machine::move()
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus_[random_() % cpus_.size()], &set);
	sched_setaffinity(0, sizeof(set), &set);
	cpu_number = static_cast<unsigned>(random_() % kCpus);
}

void Machine::change_allowed()
{
	if (!world.settings.machine || !world.alone)
		return;
	mems_allowed = 1 + random_() % ((1ul << world.nodes) - 1);
	if (random_() % 4 == 0)
		mems_allowed = ~0ul;
	/* From here on it is in force. */
	shim_trim(true);
}

void Machine::change_policy()
{
	static const int modes[] = { MPOL_DEFAULT, MPOL_LOCAL, MPOL_PREFERRED, MPOL_BIND,
				     MPOL_INTERLEAVE };
	Policy &p = policies_[random_() % policies_.size()];
	Policy made = { nullptr, modes[random_() % 5], {}, 0 };
	unsigned before = failures;
	struct nodemask mask;

	nodemask_clear(&mask);
	if (made.mode == MPOL_PREFERRED)
		made.nodes.push_back(static_cast<unsigned>(random_() % world.nodes));
	for (unsigned i = 0; i < world.nodes; i++)
		if ((made.mode == MPOL_BIND || made.mode == MPOL_INTERLEAVE) && random_() % 2)
			made.nodes.push_back(i);
	if (made.nodes.empty() && made.mode != MPOL_LOCAL)
		made.mode = MPOL_DEFAULT;
	for (unsigned node : made.nodes)
		nodemask_set(&mask, node);
	made.pol = mpol_new(made.mode, made.nodes.empty() ? nullptr : &mask);
	if (!made.pol && failures == before)
		fail("a policy of mode %d of %zu nodes is refused", made.mode,
		     made.nodes.size());
	if (!made.pol)
		return;
	mpol_put(p.pol);
	p = made;
}

void Machine::free_some(unsigned n)
{
	for (; n && !live_.empty(); n--) {
		size_t i = random_() % live_.size();
		Run run = live_[i];

		live_[i] = live_.back();
		live_.pop_back();
		release(run);
	}
}

/* Requests and frees while another thread seems to hold a zone's lock: none waits, and no page
 * is lost. */
void Machine::with_lock_taken()
{
	unsigned zone = static_cast<unsigned>(random_() % world.zones);

	if (!live_.empty() && random_() % 4)
		zone = live_[random_() % live_.size()].zone;
	if (!fuzz_zone_trylock(zone))
		return;
	if (!world.alone) { /* the others' frees meet on the list of deferred ones */
		usleep(100);
		fuzz_zone_unlock(zone);
		return;
	}
	for (unsigned n = random_() % 40; n; n--) {
		if (random_() % 3)
			free_some(1);
		else
			request_pages(random_() % 2 ? GFP_NOWAIT : GFP_ATOMIC);
	}
	fuzz_zone_unlock(zone);
	/* Reclaims do not look at what was deferred there (they purge no pinned memory). */
	if (world.zone[zone].type == ZONE_DMA) {
		fuzz_zone z;

		fuzz_zone_read(zone, &z);
	}
}

} // namespace fuzz
