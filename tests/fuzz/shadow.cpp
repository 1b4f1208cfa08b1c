/* SPDX-License-Identifier: MIT */
#include "shadow.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "ukmem/stats.h"

namespace fuzz
{

Shadow shadow;
const char *replay = "";
thread_local uint64_t step_number;

void fail(const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	fprintf(stderr, "step %llu: %s\nreplay: %s\n",
		static_cast<unsigned long long>(step_number), message, replay);
	fflush(nullptr);
	_exit(1);
}

void check_sound()
{
	if (ukmem_verify(stderr))
		fail("the library is not sound");
}

/* Zeros that take memory where they are touched only. */
template <typename T> static T *sparse_array(size_t n)
{
	void *p = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		fail("no memory for the model");
	return static_cast<T *>(p);
}

void Shadow::init()
{
	owner_ = sparse_array<std::atomic<uint32_t>>(fuzz_max_pfn());
	state_ = sparse_array<std::atomic<uint8_t>>(fuzz_max_pfn());
}

size_t Shadow::handed_all() const
{
	size_t n = 0;

	for (unsigned i = 0; i < kMaxZones; i++)
		n += handed(i);
	return n;
}

void Shadow::claim(const Run &run)
{
	size_t pfn = fuzz_pfn(run.page), fresh = 0, pinned = 0;

	for (size_t i = 0; i < run.npages; i++) {
		uint32_t nobody = 0;
		uint8_t before;

		if (!owner_[pfn + i].compare_exchange_strong(nobody, run.id,
							     std::memory_order_relaxed))
			fail("page %zu of %u at %p is run %u's already", i, run.npages,
			     static_cast<void *>(run.addr), nobody);
		before = state_[pfn + i].fetch_or(RESIDENT, std::memory_order_relaxed);
		fresh += !(before & RESIDENT);
		pinned += (before & PINNED) != 0;
	}
	if (page_zonenum(run.page) == ZONE_DMA && pinned != run.npages)
		fail("%zu of %u pages for devices are pinned", pinned, run.npages);
	resident_ += fresh;
	pinned_handed_ += pinned;
	handed_[run.zone] += run.npages;
	ever_[run.zone] += run.npages;
}

void Shadow::drop(const Run &run)
{
	size_t pfn = fuzz_pfn(run.page), pinned = 0;

	check(run);
	for (size_t i = 0; i < run.npages; i++) {
		uint32_t id = owner_[pfn + i].exchange(0, std::memory_order_relaxed);

		if (id != run.id)
			fail("page %zu of run %u became run %u's", i, run.id, id);
		pinned += (state_[pfn + i].load(std::memory_order_relaxed) & PINNED) != 0;
	}
	pinned_handed_ -= pinned;
	handed_[run.zone] -= run.npages;
}

/* All pages of a small run; of a large one the ends and a few between, always the same. */
template <typename F> void Shadow::each_sample(const Run &run, F f) const
{
	size_t page = ukmem_page_size();

	for (size_t i = 0; i < run.npages; i++) {
		if (run.npages > 8 && i > 1 && i < run.npages - 2)
			i += (run.id * 2654435761u >> 8) % (run.npages / 4);
		if (i >= run.npages)
			i = run.npages - 1;
		auto *words = reinterpret_cast<uint64_t *>(run.addr + i * page);
		uint64_t pattern = (static_cast<uint64_t>(run.id) << 32 | i) * 2 + 1;

		f(i, words[0], pattern);
		f(i, words[page / 8 - 1], ~pattern);
	}
}

void Shadow::fill(const Run &run) const
{
	each_sample(run, [](size_t, uint64_t &word, uint64_t pattern) { word = pattern; });
}

void Shadow::check(const Run &run) const
{
	each_sample(run, [&](size_t i, uint64_t word, uint64_t pattern) {
		if (word != pattern)
			fail("page %zu of run %u (%u pages at %p) holds %#llx, not %#llx", i,
			     run.id, run.npages, static_cast<void *>(run.addr),
			     static_cast<unsigned long long>(word),
			     static_cast<unsigned long long>(pattern));
	});
}

void Shadow::check_zero(const Run &run) const
{
	size_t page = ukmem_page_size(), step = run.npages > 32 ? run.npages / 32 : 1;

	for (size_t i = 0; i < run.npages; i += step) {
		auto *words = reinterpret_cast<uint64_t *>(run.addr + i * page);

		if (words[0] || words[page / 8 - 1] || words[run.id % (page / 8)])
			fail("page %zu of %u at %p is not zero", i, run.npages,
			     static_cast<void *>(run.addr));
	}
}

bool Shadow::is_pages(const void *addr) const
{
	return owner_ && virt_to_page(addr);
}

template <typename F> void Shadow::each_page(const void *addr, size_t len, F f) const
{
	size_t pfn = fuzz_pfn(virt_to_page(addr)), page = ukmem_page_size();

	for (size_t i = 0; i < len / page; i++)
		f(pfn + i);
}

void Shadow::purged(const void *addr, size_t len)
{
	each_page(addr, len, [&](size_t pfn) {
		uint32_t id = owner_[pfn].load(std::memory_order_relaxed);

		if (id)
			fail("%zu bytes at %p are purged, of which run %u has a page", len,
			     addr, id);
	});
	forget_resident(addr, len);
}

void Shadow::forget_resident(const void *addr, size_t len)
{
	each_page(addr, len, [&](size_t pfn) {
		resident_ -= state_[pfn].fetch_and(static_cast<uint8_t>(~RESIDENT),
						   std::memory_order_relaxed) &
			     RESIDENT;
	});
}

bool Shadow::pinned_any(const void *addr, size_t len) const
{
	bool any = false;

	each_page(addr, len, [&](size_t pfn) {
		any = any || state_[pfn].load(std::memory_order_relaxed) & PINNED;
	});
	return any;
}

void Shadow::pin(const void *addr, size_t len, bool on)
{
	each_page(addr, len, [&](size_t pfn) {
		uint8_t before = state_[pfn].load(std::memory_order_relaxed);

		if (owner_[pfn].load(std::memory_order_relaxed))
			fail("a page in use is %s", on ? "pinned" : "unpinned");
		if (on == ((before & PINNED) != 0))
			fail("a page is %s twice", on ? "pinned" : "unpinned");
		pinned_ += on ? 1 : -1;
		resident_ += on && !(before & RESIDENT);
		state_[pfn].store(on ? RESIDENT | PINNED
				     : static_cast<uint8_t>(before & ~PINNED),
				  std::memory_order_relaxed);
	});
}

} // namespace fuzz
