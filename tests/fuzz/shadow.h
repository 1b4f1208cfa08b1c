/* SPDX-License-Identifier: MIT */
/*
 * The shadow of the page allocator: who has which page, which pages may be resident and
 * which are pinned, in flat arrays by page frame number. Shared by all threads.
 */
#ifndef FUZZ_SHADOW_H
#define FUZZ_SHADOW_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fuzz_shim.h"

namespace fuzz
{

constexpr unsigned kMaxZones = 64;

/* Ends the process with a message and how to run it again. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails unless the library finds its own structures sound. No other thread may use it
 * meanwhile. */
void check_sound();
/* The command that replays this run, and the step at which this thread is. */
extern const char *replay;
extern thread_local uint64_t step_number;

enum How : uint8_t { PAGES, EXACT };

/* Pages that were handed out together. */
struct Run {
	char *addr;
	struct page *page;
	uint32_t id; /* not 0; the pattern follows from it */
	uint32_t npages;
	uint8_t order; /* PAGES */
	How how;
	bool compound;
	uint8_t zone;
};

class Shadow
{
      public:
	/* After the library's initialisation. */
	void init();

	/* Notes that @run is handed out. Fails if a part of it is handed out already. */
	void claim(const Run &run);
	/* Takes @run out of the shadow before it is given back. Checks its contents first. */
	void drop(const Run &run);
	void fill(const Run &run) const;
	void check(const Run &run) const;
	/* @run was asked for with __GFP_ZERO. */
	void check_zero(const Run &run) const;

	/* Effects of system calls on pages. is_pages(): false if @addr is in no page of the
	 * window. */
	bool is_pages(const void *addr) const;
	void purged(const void *addr, size_t len);
	void forget_resident(const void *addr, size_t len);
	bool pinned_any(const void *addr, size_t len) const;
	void pin(const void *addr, size_t len, bool on);

	size_t handed(unsigned zone) const
	{
		return handed_[zone].load(std::memory_order_relaxed);
	}
	size_t handed_all() const;
	uint64_t handed_ever(unsigned zone) const
	{
		return ever_[zone].load(std::memory_order_relaxed);
	}
	size_t resident() const
	{
		return resident_.load(std::memory_order_relaxed);
	}
	size_t pinned() const
	{
		return pinned_.load(std::memory_order_relaxed);
	}
	/* Pinned pages that nobody has. */
	size_t pinned_free() const
	{
		return pinned() - pinned_handed_.load(std::memory_order_relaxed);
	}

      private:
	enum : uint8_t { RESIDENT = 1, PINNED = 2 };

	template <typename F> void each_page(const void *addr, size_t len, F f) const;
	template <typename F> void each_sample(const Run &run, F f) const;

	std::atomic<uint32_t> *owner_ = nullptr;
	std::atomic<uint8_t> *state_ = nullptr;
	std::atomic<size_t> handed_[kMaxZones] = {};
	std::atomic<uint64_t> ever_[kMaxZones] = {};
	std::atomic<size_t> resident_{ 0 }, pinned_{ 0 }, pinned_handed_{ 0 };
};

extern Shadow shadow;

} // namespace fuzz

#endif
