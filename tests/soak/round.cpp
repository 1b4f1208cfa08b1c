/* SPDX-License-Identifier: MIT */
/* The threads of a soak: workers, one that trims and disturbs, one that forks. */
#include "soak/soak.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <ukmem/malloc.h>

namespace soak
{

namespace
{

constexpr unsigned SHARED = 256, CHILD_BLOCKS = 300, CHILD_SECONDS = 60;

struct Held {
	Block b;
	Source *from = nullptr;
};

void nap(unsigned microseconds)
{
	std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void verify(const Block &b, uint32_t upto)
{
	ptrdiff_t at = stress::damage(b, upto);

	if (at >= 0)
		die("contents damaged", b, (long)at);
}

class Round
{
      public:
	Round(const Plan &plan, uint64_t seed, Counts &counts)
	    : plan_(plan), seed_(seed), counts_(counts), sources_(plan.sources(plan.threads)),
	      shared_(SHARED)
	{
	}
	void run(double seconds);

      private:
	struct Worker {
		unsigned id;
		Random random;
		std::vector<Held> held;
		uint64_t operations = 0, bytes = 0, refused = 0;
	};

	void work(unsigned id);
	void step(Worker &w);
	void make(Worker &w, Held &h);
	void release(Random &random, Held &h);
	void resize(Worker &w, Held &h);
	void swap(Worker &w, Held &h);
	void look();
	void trim();
	void fork_children();
	[[noreturn]] void child(uint64_t seed);

	const Plan &plan_;
	const uint64_t seed_;
	Counts &counts_;
	Sources sources_;
	std::atomic<bool> stop_{ false };
	std::mutex mutex_; /* shared_ */
	std::vector<Held> shared_;
};

void Round::make(Worker &w, Held &h)
{
	Source *from = sources_[w.random.below((uint32_t)sources_.size())].get();

	if (from->move(w.random, w.id, w.bytes))
		return;
	if (!from->make(w.random, h.b)) {
		w.refused++;
		return;
	}
	h.from = from;
	h.b.key = w.random.next();
	stress::fill(h.b);
	w.bytes += h.b.size;
}

void Round::release(Random &random, Held &h)
{
	verify(h.b, h.b.size);
	h.from->free(random, h.b);
	h = Held();
}

void Round::resize(Worker &w, Held &h)
{
	uint32_t old = h.b.size, size = 1 + old / 2 + w.random.below(2 * old);

	if (!h.from->resize(h.b, size))
		return;
	verify(h.b, std::min(old, size)); /* still as a block of the old size */
	h.b.size = size;
	h.b.key = w.random.next();
	stress::fill(h.b);
	w.bytes += size;
}

/* Other threads free what this one made, and the other way round. */
void Round::swap(Worker &w, Held &h)
{
	std::lock_guard<std::mutex> guard(mutex_);

	std::swap(h, shared_[w.random.below(SHARED)]);
}

void Round::step(Worker &w)
{
	Held &h = w.held[w.random.below((uint32_t)w.held.size())];
	uint32_t what = w.random.below(16);
	bool shrinks = plan_.wave && w.operations / plan_.wave % 2;

	w.operations++;
	if (!h.from && !shrinks)
		make(w, h);
	else if (!h.from)
		return;
	else if (what < 8)
		release(w.random, h);
	else if (what < 11)
		swap(w, h);
	else if (what < 13)
		resize(w, h);
	else
		verify(h.b, h.b.size);
}

void Round::work(unsigned id)
{
	Worker w = { id, Random(seed_ * 4099 + id), std::vector<Held>(plan_.slots) };

	while (!stop_.load(std::memory_order_relaxed))
		step(w);
	for (Held &h : w.held)
		if (h.from)
			release(w.random, h);
	counts_.operations += w.operations;
	counts_.bytes += w.bytes;
	counts_.refused += w.refused;
}

void Round::look()
{
	struct ukmem_gauges g;

	if (plan_.dropin)
		ukmem_malloc_gauges_read(&g);
	else
		ukmem_gauges_read(&g);
	counts_.most_mapped = std::max<size_t>(counts_.most_mapped, g.mapped);
}

void Round::trim()
{
	Random random(seed_ + 1);

	while (!stop_) {
		sources_[random.below((uint32_t)sources_.size())]->disturb(random);
		if (!random.below(16)) {
			if (plan_.dropin)
				ukmem_malloc_trim();
			else
				ukmem_trim();
			counts_.trims++;
		}
		look();
		nap(random.below(3000));
	}
}

/* What a child of a process with threads may do: use the library, and exit. */
void Round::child(uint64_t seed)
{
	static Held held[CHILD_BLOCKS];
	Random random(seed);

	for (Held &h : held) {
		Source *from = sources_[random.below((uint32_t)sources_.size())].get();

		if (!from->make(random, h.b))
			continue;
		h.from = from;
		h.b.key = random.next();
		stress::fill(h.b);
	}
	for (Held &h : held) {
		if (h.from && stress::damage(h.b, h.b.size) >= 0)
			_exit(3);
		if (h.from)
			h.from->free(random, h.b);
	}
	_exit(0);
}

void Round::fork_children()
{
	for (uint64_t n = 0; !stop_; n++) {
		pid_t pid = fork();
		int status = 0;

		if (!pid) {
			alarm(CHILD_SECONDS); /* a child that hangs is an error, too */
			child(seed_ + n);
		}
		if (pid < 0)
			die("fork", Block(), 0);
		if (waitpid(pid, &status, 0) != pid || status)
			die("a child failed; wait status", Block(), status);
		counts_.forks++;
		nap(20000);
	}
}

void Round::run(double seconds)
{
	std::vector<std::thread> threads;
	Random random(seed_ + 2);

	for (unsigned i = 0; i < plan_.threads; i++)
		threads.emplace_back([this, i] { work(i); });
	threads.emplace_back([this] { trim(); });
	if (plan_.forks)
		threads.emplace_back([this] { fork_children(); });
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	stop_ = true;
	for (std::thread &t : threads)
		t.join();
	for (Held &h : shared_)
		if (h.from)
			release(random, h);
}

} // namespace

void run_round(const Plan &plan, uint64_t seed, double seconds, Counts &counts)
{
	Round(plan, seed, counts).run(seconds);
}

} // namespace soak
