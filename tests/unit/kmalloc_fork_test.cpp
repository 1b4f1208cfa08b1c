/* SPDX-License-Identifier: MIT */
/*
 * Requests while a fork keeps slow paths waiting: an object out of this CPU's arrays serves, of
 * the class or of a larger one. What is not there waits until the fork is over, or for
 * GATE_PATIENCE_MS.
 */
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "gate_shim.h"
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

/* Before the library is initialised. Threads of one CPU have one array; each object is a
 * class's. */
const bool configured = !setenv("UKMEM_CONF",
				rseq_is_off() ? "kfence_sample_interval:0"
					      : "kfence_sample_interval:0,percpu:cpu_id",
				1);

constexpr gfp_t kFlags = GFP_KERNEL;

/* Objects that this CPU's array has for @size bytes. */
uint64_t cached(size_t size)
{
	shim_counts c;

	shim_slab_count(shim_class_cache(size), &c);
	return c.cached;
}

/* Takes all that this CPU's array has. */
void empty_array(size_t size)
{
	kfree(kmalloc(size, kFlags)); /* the class is in use, and has a slab */
	while (cached(size) > 0)
		ASSERT_NE(kmalloc(size, kFlags), nullptr);
}

/* Gives this CPU's array an object that the program has written to. */
void fill_array(size_t size)
{
	void *p = kmalloc(size, kFlags);

	memset(p, 0x6b, size);
	kfree(p);
	ASSERT_GT(cached(size), 0u);
}

/* What a thread is given while another one forks. */
void *beside_fork(const std::function<void *()> &request)
{
	void *p = nullptr;

	shim_gate_close();
	std::thread([&] { p = request(); }).join();
	shim_gate_open();
	return p;
}

TEST(KmallocForkTest, AnObjectAtHandServes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		fill_array(1024);
		empty_array(896);
		void *p = beside_fork([] { return kmalloc(896, kFlags); });

		EXPECT_EQ(ksize(p), 1024u);
		kfree(p);
	});
}

/* Where several are, the smallest; and this has the bytes that were asked for as zeros. */
TEST(KmallocForkTest, TheSmallestOneAndZeroed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		for (size_t size : { 1024, 1280, 1536 })
			fill_array(size);
		empty_array(896);
		empty_array(1024);
		auto *p = static_cast<unsigned char *>(
			beside_fork([] { return kzalloc(896, kFlags); }));

		EXPECT_EQ(ksize(p), 1280u);
		EXPECT_TRUE(std::all_of(p, p + 896, [](unsigned char c) { return c == 0; }));
		kfree(p);
	});
}

/* kmalloc() of 512 bytes is aligned to 512, which objects of 640 bytes are not. */
TEST(KmallocForkTest, AlignedAsPromised)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		for (size_t size : { 640, 768, 896, 1024 })
			fill_array(size);
		empty_array(512);
		void *p = beside_fork([] { return kmalloc(512, kFlags); });

		EXPECT_EQ(ksize(p), 1024u);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 512, 0u);
		kfree(p);
	});
}

/* A request that finds nothing gets what it asks for, in the end. */
TEST(KmallocForkTest, WhatIsNotThereWaits)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		for (size_t size : { 896, 1024, 1280, 1536, 1792 })
			empty_array(size);
		void *p = beside_fork([] { return kmalloc(896, kFlags); });

		EXPECT_EQ(ksize(p), 896u);
		kfree(p);
	});
}

/* A cache that was told to fail does; no other one serves in its place. */
TEST(KmallocForkTest, AClassThatFailsHasNoOther)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		fill_array(1024);
		empty_array(896);
		kmem_cache_fail(shim_class_cache(896), 0, 0);
		EXPECT_EQ(beside_fork([] { return kmalloc(896, kFlags | __GFP_NOWARN); }),
			  nullptr);
		kmem_cache_fail(shim_class_cache(896), -1, 0);
	});
}

} // namespace
