/* SPDX-License-Identifier: MIT */
/*
 * Requests with GFP_NOWAIT and GFP_ATOMIC make no system call: the kernel kills the process at
 * the first one. They do not wait for a lock, either: they return while another thread holds
 * it.
 */
#include "page_shim.h"
#include "seccomp.h"
#include "ukmem/ukmem.h"

namespace
{

void nothing()
{
}

void init_only()
{
	kfree(kmalloc(1, GFP_KERNEL));
	shim_trim(true);
}

/* Something of everything is there and free. */
void warm_up()
{
	std::vector<void *> p;

	for (size_t size = 1; size <= 20000; size += size / 8 + 1)
		for (int i = 0; i < 10; i++)
			p.push_back(kmalloc(size, GFP_KERNEL));
	for (void *q : p)
		kfree(q);
	/* Last, or slabs may have taken them: who must not wait leaves the zone's reserve. */
	for (unsigned order = 0; order < 6; order++)
		__free_pages(alloc_pages(GFP_KERNEL, order), order);
}

/* Until nothing is left; then NULL for ever. */
unsigned exhaust(unsigned order, gfp_t flags)
{
	unsigned n = 0;

	while (n < 100000) {
		struct page *p = alloc_pages(flags, order);

		if (!p)
			return alloc_pages(flags, order) ? 0 : n;
		static_cast<char *>(page_address(p))[0] = 1;
		n++;
	}
	return n;
}

bool pages_and_objects()
{
	bool got = exhaust(3, GFP_NOWAIT) > 0;

	got = exhaust(0, GFP_ATOMIC) > 0 && got;
	for (size_t size = 1; size <= 20000; size += size / 8 + 1)
		for (int i = 0; i < 5; i++) {
			char *p = static_cast<char *>(kmalloc(size, GFP_NOWAIT));

			if (p)
				p[0] = p[size - 1] = 1;
		}
	return got;
}

bool objects()
{
	for (size_t size = 1; size <= 20000; size += size / 8 + 1)
		for (int i = 0; i < 5; i++) {
			char *p = static_cast<char *>(
				kmalloc(size, i % 2 ? GFP_NOWAIT : GFP_ATOMIC));

			if (!p)
				return false;
			p[0] = p[size - 1] = 1;
		}
	return true;
}

bool pages()
{
	return exhaust(3, GFP_NOWAIT) > 0 && exhaust(0, GFP_NOWAIT) > 0;
}

bool nothing_but_null()
{
	return !kmalloc(100, GFP_NOWAIT) && !kmalloc(100000, GFP_ATOMIC) &&
	       !alloc_pages(GFP_NOWAIT, 0);
}

/*
 * The process calls the allocator for the first time: served or not, no system call.
 */
bool whatever()
{
	alloc_pages(GFP_NOWAIT, 0);
	alloc_pages(GFP_ATOMIC, 3);
	void *p = kmalloc(100, GFP_NOWAIT);
	(void)p;
	return true;
}

/* A block that has to be zeroed, and is so large that its pages may go back instead. */
void free_a_large_block()
{
	void *p = kmalloc(48 << 20, GFP_KERNEL);

	memset(p, 0x5a, 48 << 20);
	kfree(p);
}

bool zeroed_block()
{
	auto *p = static_cast<char *>(kmalloc(40 << 20, GFP_NOWAIT | __GFP_ZERO));

	return p && !p[0] && !p[20 << 20] && !p[(40 << 20) - 1];
}

TEST(NowaitTest, ALargeZeroedBlock)
{
	expect_no_system_calls(free_a_large_block, zeroed_block);
}

TEST(NowaitTest, ObjectsAfterWarmUp)
{
	expect_no_system_calls(warm_up, objects);
}

TEST(NowaitTest, PagesAfterWarmUp)
{
	expect_no_system_calls(warm_up, pages);
}

TEST(NowaitTest, PagesAndObjectsOfAnAllocatorJustBegun)
{
	expect_no_system_calls(init_only, pages_and_objects);
}

TEST(NowaitTest, FirstCallOfTheProcess)
{
	expect_no_system_calls(nothing, whatever);
}

TEST(NowaitTest, FirstCallReturnsNull)
{
	expect_no_system_calls(nothing, nothing_but_null);
}

bool all_locks_held()
{
	unsigned n = 0;

	for (unsigned i = 0; i < shim_nr_zones(); i++)
		if (!shim_zone_trylock(i))
			return false;
	/* The pageset serves some, then it is over; nothing waits (it would be killed). */
	while (n < 1000 && alloc_pages(GFP_NOWAIT, 0))
		n++;
	return n < 1000 && !alloc_pages(GFP_NOWAIT, 7) && !kmalloc(1 << 20, GFP_ATOMIC);
}

TEST(NowaitTest, HeldZoneLockMeansNull)
{
	expect_no_system_calls(warm_up, all_locks_held);
}

/* A handler may interrupt the allocator anywhere, also while it holds a lock. */
std::atomic<uint64_t> handled, handled_null;

void handler(int)
{
	static void *kept[16];
	static unsigned next;
	char *p = static_cast<char *>(kmalloc(64, GFP_ATOMIC));

	handled++;
	if (!p) {
		handled_null++;
		return;
	}
	memset(p, 1, 64);
	/* Freed by the thread, not here. */
	if (next < 16)
		kept[next++] = p;
	(void)kept;
}

TEST(NowaitTest, HandlerAllocatesWhileTheThreadDoes)
{
	std::atomic<bool> stop{ false };

	kfree(kmalloc(1, GFP_KERNEL));
	{
		Threads t(1, [&](unsigned) {
			std::vector<void *> p(300);
			std::mt19937 random(1);

			while (!stop) {
				for (auto &q : p)
					q = kmalloc(1 + random() % 300, GFP_KERNEL);
				for (auto &q : p)
					kfree(q);
			}
		});
		SignalStorm storm(handler);

		std::this_thread::sleep_for(std::chrono::milliseconds(500));
		stop = true;
	}
	EXPECT_GT(handled, 0u);
}

} // namespace
