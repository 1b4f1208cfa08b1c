/* SPDX-License-Identifier: MIT */
/*
 * Caches that are debugged: each bug with its message, beside its benign twin and beside the
 * same bug where nobody looks.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

namespace
{

constexpr unsigned kSize = 64;
constexpr size_t kMiB = size_t{ 1 } << 20;

char *get(struct kmem_cache *s)
{
	return static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
}

/* Frees of others, none of which shares a slab with what was allocated before. */
void others(struct kmem_cache *s, size_t n)
{
	std::vector<void *> p(n);

	for (auto &q : p)
		q = kmem_cache_alloc(s, GFP_KERNEL);
	for (size_t i = std::min<size_t>(n, 256); i < n; i++)
		kmem_cache_free(s, p[i]);
}

void free_again_after(struct kmem_cache *s, bool bug, size_t n)
{
	char *p = get(s);

	kmem_cache_free(s, p);
	others(s, n);
	if (bug)
		kmem_cache_free(s, p);
}

/* A byte, or several, outside of an object that has neighbours of its own kind. */
void write_outside(struct kmem_cache *s, bool bug, long from, size_t n)
{
	std::vector<char *> p(static_cast<size_t>(3 * kMiB / kSize));

	for (auto &q : p)
		q = get(s);
	std::sort(p.begin(), p.end());
	char *volatile middle = p[p.size() / 2];
	if (bug)
		memset(middle + from, 'A', n);
	kmem_cache_free(s, middle);
}

void write_freed(struct kmem_cache *s, bool bug, long at, size_t n)
{
	char *volatile p = get(s);

	kmem_cache_free(s, p);
	if (bug)
		memset(p + at, 'A', n);
	kmem_cache_shrink(s);
}

struct Bug {
	const char *name;
	void (*run)(struct kmem_cache *s, bool bug);
	std::string text;
	slab_flags_t flags = SLAB_DEBUG_FLAGS;
};

const std::string kStart = "^ukmem: BUG bugs: ";
const std::string kObject =
	": object 0x[0-9a-f]+\n"
	"ukmem:   64 bytes at 0x[0-9a-f]+, number [0-9]+ of [0-9]+ in slab 0x[0-9a-f]+\n";
const std::string kDump = "(ukmem:    *[+-][0-9]+: ([0-9a-f][0-9a-f] )+ *[^\n]+\n)+";
const std::string kWhen = "[^\n]+ by thread [0-9]+ on cpu [0-9]+, [0-9]+ ms ago\n";
const std::string kAllocated = "ukmem:   allocated at " + kWhen;
const std::string kFreed = "ukmem:   freed at " + kWhen;
const std::string kFound = "ukmem:   found at [^\n]+ by thread [0-9]+\n$";
const std::string kTwice =
	kStart + "Object already free" + kObject + kAllocated + kFreed + kFound;

std::string outside(const char *side, const char *wrong)
{
	return kStart + side + " guard overwritten" + kObject +
	       "ukmem:   wrong bytes: " + wrong + ": 0x41, not 0xcc\n" + kDump + "(" +
	       kAllocated + ")?" + kFound;
}

std::string freed(const char *wrong)
{
	return kStart + "Poison overwritten" + kObject + "ukmem:   wrong bytes: " + wrong +
	       ": 0x41, not 0x6b\n" + kDump + kAllocated + kFreed + "$";
}

const std::string kInvalid = "^ukmem: free\\(\\): invalid pointer 0x[0-9a-f]+: not the start "
			     "of an object\n" FOUND_AT;
const std::string kForeign = "^ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not "
			     "an object of this cache\n" FOUND_AT;

const std::vector<Bug> &bugs()
{
	static const std::vector<Bug> all = {
		{ "twice at once",
		  [](struct kmem_cache *s, bool bug) { free_again_after(s, bug, 0); }, kTwice },
		{ "p q p",
		  [](struct kmem_cache *s, bool bug) {
			  char *p = get(s), *q = get(s);
			  kmem_cache_free(s, p);
			  kmem_cache_free(s, q);
			  if (bug)
				  kmem_cache_free(s, p);
		  },
		  kTwice },
		{ "twice after some",
		  [](struct kmem_cache *s, bool bug) {
			  char *p = get(s);
			  others(s, 1280);
			  kmem_cache_free(s, p);
			  if (bug)
				  kmem_cache_free(s, p);
		  },
		  kTwice },
		{ "twice by another thread",
		  [](struct kmem_cache *s, bool bug) {
			  char *p = get(s);
			  kmem_cache_free(s, p);
			  std::thread([=] {
				  if (bug)
					  kmem_cache_free(s, p);
			  }).join();
		  },
		  kTwice },
		{ "overflow by 1",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize, 1); },
		  outside("Right", "1, first at \\+64") },
		{ "overflow by 8",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize, 8); },
		  outside("Right", "8, first at \\+64") },
		{ "overflow by 32",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize, 32); },
		  outside("Right", "32, first at \\+64") },
		{ "overflow by 1 MiB",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize, kMiB); },
		  outside("Right", "32, first at \\+64") },
		{ "byte 31 after the end",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize + 31, 1); },
		  outside("Right", "1, first at \\+95") },
		{ "underflow by 1",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, -1, 1); },
		  outside("Left", "1, first at -1") },
		{ "underflow by 8",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, -8, 8); },
		  outside("Left", "8, first at -8") },
		{ "underflow by 32",
		  [](struct kmem_cache *s, bool bug) { write_outside(s, bug, -32, 32); },
		  outside("Left", "32, first at -32") },
		{ "underflow by 1 MiB",
		  [](struct kmem_cache *s, bool bug) {
			  write_outside(s, bug, -static_cast<long>(kMiB), kMiB);
		  },
		  outside("Left", "32, first at -32") },
		{ "freed, first word",
		  [](struct kmem_cache *s, bool bug) { write_freed(s, bug, 0, 8); },
		  freed("8, first at \\+0") },
		{ "freed, byte 50",
		  [](struct kmem_cache *s, bool bug) { write_freed(s, bug, 50, 1); },
		  freed("1, first at \\+50") },
		{ "freed, last byte",
		  [](struct kmem_cache *s, bool bug) { write_freed(s, bug, kSize - 1, 1); },
		  kStart + "Poison overwritten" + kObject +
			  "ukmem:   wrong bytes: 1, first at \\+63: 0x41, not 0xa5\n" + kDump +
			  kAllocated + kFreed + "$" },
		{ "freed, all of it",
		  [](struct kmem_cache *s, bool bug) { write_freed(s, bug, 0, kSize); },
		  freed("63, first at \\+0") },
		{ "p + 1",
		  [](struct kmem_cache *s, bool bug) { kmem_cache_free(s, get(s) + bug); },
		  kInvalid },
		{ "p + 8",
		  [](struct kmem_cache *s, bool bug) { kmem_cache_free(s, get(s) + 8 * bug); },
		  kInvalid },
		{ "p + 4K",
		  [](struct kmem_cache *s, bool bug) {
			  write_outside(s, false, 0, 0);
			  kmem_cache_free(s, get(s) + (bug ? 4096 : 0));
		  },
		  "^ukmem: (kmem_cache_)?free\\(\\): invalid pointer 0x[0-9a-f]+: not " },
		{ "p + 16K",
		  [](struct kmem_cache *s, bool bug) {
			  write_outside(s, false, 0, 0);
			  kmem_cache_free(s, get(s) + (bug ? 16384 : 0));
		  },
		  "^ukmem: (kmem_cache_)?free\\(\\): invalid pointer 0x[0-9a-f]+: not " },
		{ "p + 1G",
		  [](struct kmem_cache *s, bool bug) {
			  kmem_cache_free(s, get(s) + (bug ? size_t{ 1 } << 30 : 0));
		  },
		  kForeign },
		{ "1",
		  [](struct kmem_cache *s, bool bug) {
			  kmem_cache_free(s, bug ? reinterpret_cast<char *>(1) : nullptr);
		  },
		  "^ukmem: kmem_cache_free\\(\\): invalid pointer 0x1: not an object of this "
		  "cache\n" FOUND_AT },
		{ "stack",
		  [](struct kmem_cache *s, bool bug) {
			  char c;
			  kmem_cache_free(s, bug ? &c : nullptr);
		  },
		  kForeign },
		{ "wrong cache",
		  [](struct kmem_cache *s, bool bug) {
			  struct kmem_cache *other =
				  kmem_cache_create("other", kSize, 0, 0, nullptr);
			  kmem_cache_debug(other, SLAB_CONSISTENCY_CHECKS);
			  kmem_cache_free(bug ? other : s, get(s));
		  },
		  "^ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not an object "
		  "of this cache, but of bugs\n" FOUND_AT },
	};
	return all;
}

/* Whatever those bugs leave behind. */
[[noreturn]] void run_and_leave(const Bug &b, slab_flags_t flags, bool bug)
{
	struct kmem_cache *s = kmem_cache_create("bugs", kSize, 0, flags, nullptr);

	if (!flags)
		config.invalid_free = INVALID_FREE_IGNORE;
	b.run(s, bug);
	_exit(0);
}

TEST(SlabBugsDeathTest, BugsAreFound)
{
	for (auto &b : bugs())
		EXPECT_EXIT(run_and_leave(b, b.flags, true), ::testing::KilledBySignal(SIGABRT),
			    b.text)
			<< b.name;
}

TEST(SlabBugsDeathTest, WhatIsNoBugIsNot)
{
	for (auto &b : bugs())
		EXPECT_EXIT(run_and_leave(b, b.flags, false), ::testing::ExitedWithCode(0),
			    "^$")
			<< b.name;
}

TEST(SlabBugsDeathTest, WithoutDebuggingNobodyLooks)
{
	for (auto &b : bugs())
		EXPECT_EXIT(run_and_leave(b, 0, true), ::testing::ExitedWithCode(0), "^$")
			<< b.name;
}

/* Each check by its own flag, and not by the three others. */
TEST(SlabBugsDeathTest, EachFlagIsItsOwnCheck)
{
	const slab_flags_t all = SLAB_DEBUG_FLAGS;
	Bug overflow = {
		"", [](struct kmem_cache *s, bool bug) { write_outside(s, bug, kSize, 1); },
		"Right guard overwritten"
	};
	Bug late = { "", [](struct kmem_cache *s, bool bug) { write_freed(s, bug, 8, 1); },
		     "Poison overwritten" };

	EXPECT_EXIT(run_and_leave(overflow, SLAB_RED_ZONE, true),
		    ::testing::KilledBySignal(SIGABRT), overflow.text);
	EXPECT_EXIT(run_and_leave(overflow, all & ~SLAB_RED_ZONE, true),
		    ::testing::ExitedWithCode(0), "^$");
	EXPECT_EXIT(run_and_leave(late, SLAB_POISON | SLAB_CONSISTENCY_CHECKS, true),
		    ::testing::KilledBySignal(SIGABRT), late.text);
	EXPECT_EXIT(run_and_leave(late, all & ~SLAB_POISON, true), ::testing::ExitedWithCode(0),
		    "^$");
}

/* Freed a quarter of a million objects ago: still in its slab, or that is gone. */
TEST(SlabBugsDeathTest, DoubleFreeLongAfterwards)
{
	auto run = [](bool bug) {
		struct kmem_cache *s =
			kmem_cache_create("bugs", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
		std::vector<char *> p(262144 / kSlow);

		for (auto &q : p)
			q = get(s);
		for (char *q : p)
			kmem_cache_free(s, q);
		if (bug)
			kmem_cache_free(s, p[0]);
		_exit(0);
	};
	EXPECT_EXIT(run(true), ::testing::KilledBySignal(SIGABRT),
		    "Object already free|not an object of this cache");
	EXPECT_EXIT(run(false), ::testing::ExitedWithCode(0), "^$");
}

TEST(SlabBugsDeathTest, KmallocsBytes)
{
	auto run = [](slab_flags_t flags, long at) {
		struct kmem_cache *s = shim_class_cache(100);

		kmem_cache_debug(s, flags);
		auto *volatile p = static_cast<char *>(kmalloc(100, GFP_KERNEL));
		for (size_t i = 0; i < ksize(p); i++)
			p[i] = 'x';
		if (at >= 0)
			p[ksize(p) + static_cast<size_t>(at)] = 'A';
		kfree(p);
		_exit(0);
	};
	shim_kmalloc_init();
	EXPECT_EXIT(run(SLAB_DEBUG_FLAGS, 0), ::testing::KilledBySignal(SIGABRT),
		    "^ukmem: BUG kmalloc-112: Right guard overwritten: object .*first at "
		    "\\+100: 0x41, not 0xcc\n");
	EXPECT_EXIT(run(SLAB_DEBUG_FLAGS, -1), ::testing::ExitedWithCode(0), "^$");
	EXPECT_EXIT(run(0, 0), ::testing::ExitedWithCode(0), "^$");
}

bool is_filled(const char *p, size_t n, char with)
{
	return std::all_of(p, p + n, [with](char c) { return c == with; });
}

/* Of blocks of @size bytes in a class of @bytes, debugged as @flags say. */
void expect_end(size_t bytes, slab_flags_t flags, size_t size,
		const std::function<void *()> &make)
{
	kmem_cache_debug(shim_class_cache(bytes), flags);
	for (size_t at : { size - 1, size }) {
		auto *p = static_cast<char *>(make());

		ASSERT_NE(p, nullptr);
		ASSERT_EQ(ksize(p), size);
		if (at < size) {
			p[at] = 'A';
			kfree(p);
			continue;
		}
		EXPECT_DEATH((p[at] = 'A', kfree(p)),
			     "Right guard overwritten: object .*\n.*  " + std::to_string(size) +
				     " bytes at .*\n.*first at \\+" + std::to_string(size) +
				     ":");
		EXPECT_DEATH((p[at] = 'A',
			      p = static_cast<char *>(krealloc(p, size + 1, GFP_KERNEL))),
			     "Right guard overwritten: ");
		kfree(p);
	}
}

/* The end of a block is where the bytes asked for end, however it got its size. */
TEST(SlabBugsDeathTest, KmallocsEnd)
{
	shim_kmalloc_init();
	for (size_t size : { 97, 100, 111, 112 })
		expect_end(112, SLAB_DEBUG_FLAGS, size,
			   [size] { return kmalloc(size, GFP_KERNEL); });
	expect_end(112, SLAB_RED_ZONE, 100, [] { return kzalloc(100, GFP_KERNEL); });
	expect_end(112, SLAB_DEBUG_FLAGS, 106, [] {
		auto *p = static_cast<char *>(kmalloc(101, GFP_KERNEL));

		memset(p, 'x', 101);
		p = static_cast<char *>(krealloc(p, 110, GFP_KERNEL));
		memset(p + 101, 'x', 9);
		p = static_cast<char *>(krealloc(p, 106, GFP_KERNEL));
		EXPECT_TRUE(is_filled(p, 106, 'x'));
		return p;
	});
	expect_end(128, SLAB_DEBUG_FLAGS, 100,
		   [] { return shim_kmalloc_aligned(100, 64, GFP_KERNEL); });
}

/* krealloc() zeroes the bytes that a block gains in its class if it is asked to, and else
 * slab_debug poisons them. */
TEST(SlabBugsTest, WhatABlockGains)
{
	shim_kmalloc_init();
	kmem_cache_debug(shim_class_cache(112), SLAB_DEBUG_FLAGS);
	auto *p = static_cast<char *>(kmalloc(100, GFP_KERNEL));

	memset(p, 'x', 100);
	EXPECT_EQ(krealloc(p, 108, GFP_KERNEL), p);
	EXPECT_TRUE(is_filled(p + 100, 8, 0x5a));
	EXPECT_EQ(krealloc(p, 112, GFP_KERNEL | __GFP_ZERO), p);
	EXPECT_TRUE(is_filled(p + 108, 4, 0));
	EXPECT_TRUE(is_filled(p, 100, 'x'));
	EXPECT_EQ(krealloc(p, 98, GFP_KERNEL | __GFP_ZERO), p);
	kfree(p);
	/* Without guards nothing ends before the class. */
	kmem_cache_debug(shim_class_cache(112), SLAB_POISON);
	p = static_cast<char *>(kmalloc(100, GFP_KERNEL));
	EXPECT_EQ(ksize(p), 112u);
	kfree(p);
}

TEST(SlabBugsDeathTest, ReallocAndSizeAfterFree)
{
	auto run = [](bool bug, bool size) {
		kmem_cache_debug(shim_class_cache(64), SLAB_DEBUG_FLAGS);
		void *p = kmalloc(64, GFP_KERNEL);

		if (bug)
			kfree(p);
		if (size ? ksize(p) != 64 : krealloc(p, 60, GFP_KERNEL) == nullptr)
			_exit(1);
		_exit(0);
	};
	const char *text = "^ukmem: BUG kmalloc-64: Object already free: object 0x";

	shim_kmalloc_init();
	EXPECT_EXIT(run(true, false), ::testing::KilledBySignal(SIGABRT), text);
	EXPECT_EXIT(run(true, true), ::testing::KilledBySignal(SIGABRT), text);
	EXPECT_EXIT(run(false, false), ::testing::ExitedWithCode(0), "^$");
	EXPECT_EXIT(run(false, true), ::testing::ExitedWithCode(0), "^$");
}

/* An object from before has no guards, but who frees it twice is found at once. */
TEST(SlabBugsDeathTest, ObjectsFromBefore)
{
	auto run = [](slab_flags_t flags) {
		struct kmem_cache *s = kmem_cache_create("before", kSize, 0, 0, nullptr);
		char *p = get(s);

		kmem_cache_debug(s, flags);
		kmem_cache_free(s, p);
		kmem_cache_free(s, p);
		_exit(0);
	};

	EXPECT_EXIT(run(SLAB_CONSISTENCY_CHECKS), ::testing::KilledBySignal(SIGABRT),
		    "^ukmem: free\\(\\): invalid pointer 0x[0-9a-f]+: double free\n$");
	EXPECT_EXIT(run(0), ::testing::ExitedWithCode(0), "^$");
}

TEST(SlabBugsDeathTest, DestroyTellsWhoAllocated)
{
	auto run = [](slab_flags_t flags, int n) {
		struct kmem_cache *s = kmem_cache_create("left", kSize, 0, flags, nullptr);

		for (int i = 0; i < n; i++)
			get(s);
		kmem_cache_destroy(s);
		_exit(0);
	};
	const std::string line = "ukmem:   object 0x[0-9a-f]+\n";

	EXPECT_EXIT(
		run(SLAB_STORE_USER, 1), ::testing::ExitedWithCode(0),
		"^ukmem: kmem_cache_destroy\\(left\\): 1 objects still in use, cache kept\n" +
			line + kAllocated + "$");
	EXPECT_EXIT(run(0, 40), ::testing::ExitedWithCode(0),
		    "^ukmem: kmem_cache_destroy\\(left\\): 40 objects still in use, cache "
		    "kept\n(" +
			    line + "){16}$");
	EXPECT_EXIT(run(SLAB_STORE_USER, 0), ::testing::ExitedWithCode(0), "^$");
}

} // namespace
