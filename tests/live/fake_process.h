/* SPDX-License-Identifier: MIT */
/* The reader of other processes (tools/live) with a fake process: this one. */
#ifndef LIVE_FAKE_PROCESS_H
#define LIVE_FAKE_PROCESS_H

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>

#include "live/process.h"
#include "live/snapshot.h"

/* This process; a test may change what is read of it, or when reading fails. */
class fake_process : public live::process_memory
{
      public:
	using process_memory::read;

	void begin_look(unsigned int times = 1) override
	{
		process.begin_look(times);
	}

	bool read(const std::vector<live::piece> &pieces) override
	{
		reads++;
		if (on_read)
			on_read();
		if (reads == fail_at || !process.read(pieces))
			return false;
		for (const live::piece &p : pieces)
			for (const auto &[at, byte] : changes)
				if (at - p.from < p.size)
					static_cast<unsigned char *>(p.to)[at - p.from] = byte;
		if (after_read)
			after_read(pieces);
		return true;
	}

	std::vector<live::mapping> mappings() override
	{
		return process.mappings();
	}

	uint64_t resident(live::address from, uint64_t size) override
	{
		return process.resident(from, size);
	}

	bool pages_in_memory(live::address from, uint64_t npages,
			     std::vector<uint8_t> &pages) override
	{
		if (pagemap)
			return process.pages_in_memory(from, npages, pages);
		return process_memory::pages_in_memory(from, npages, pages);
	}

	void check_alive() override
	{
		process.check_alive();
	}

	template <typename T> void change(live::address at, T value)
	{
		const auto *bytes = reinterpret_cast<const unsigned char *>(&value);

		for (size_t i = 0; i < sizeof(value); i++)
			changes[at + i] = bytes[i];
	}

	live::process process{ getpid() };
	std::map<live::address, unsigned char> changes;
	unsigned int reads = 0, fail_at = 0;
	bool pagemap = true;
	std::function<void()> on_read;
	std::function<void(const std::vector<live::piece> &)> after_read;
};

constexpr unsigned int everything =
	live::CACHES | live::ZONES | live::BLOCKS | live::GAUGES | live::LISTED;

/* The message of the error that @f throws; it must be of @why. */
template <typename F> std::string message_of(live::reason why, F f)
{
	try {
		f();
	} catch (const live::error &e) {
		EXPECT_EQ(static_cast<int>(e.why), static_cast<int>(why)) << e.what();
		return e.what();
	}
	ADD_FAILURE() << "no error";
	return "";
}

/* What every snapshot promises, whenever it was taken. */
inline void expect_possible(const live::snapshot &s)
{
	for (const live::cache &c : s.caches) {
		EXPECT_LE(c.all.inuse, c.all.objects) << c.name;
		EXPECT_LE(c.all.inuse + c.all.cached, c.all.objects) << c.name;
		EXPECT_LE(c.all.partial, c.all.slabs) << c.name;
		EXPECT_LE(c.idle, c.all.slabs) << c.name;
		EXPECT_LE(c.all.listed_inuse, c.all.objects) << c.name;
		EXPECT_LE(c.frees, c.allocs) << c.name;
		EXPECT_LE(c.frees_fast, c.frees) << c.name;
		EXPECT_FALSE(c.name.empty());
	}
	for (const live::zone &z : s.zones) {
		uint64_t pages = 0;

		EXPECT_LE(z.used + z.free, z.present) << z.name;
		EXPECT_LE(z.dirty, z.free) << z.name;
		EXPECT_LE(z.pageset_pages, z.used) << z.name;
		EXPECT_LE(z.present, z.below()) << z.name;
		EXPECT_LE(z.freed, z.alloc) << z.name;
		for (size_t order = 0; order < z.blocks.size(); order++)
			pages += z.blocks[order] << order;
		EXPECT_LE(pages, z.below()) << z.name;
	}
	EXPECT_LE(s.gauges.allocated, s.gauges.active);
	EXPECT_LE(s.gauges.active, s.gauges.mapped);
	EXPECT_LE(s.gauges.retained, s.gauges.mapped);
}

class LiveReader : public ::testing::Test
{
      protected:
	LiveReader()
	{
		for (size_t i = 0; i < 3000; i++)
			blocks.push_back(kmalloc(i % 6000 + 1, GFP_KERNEL));
		for (size_t i = 0; i < blocks.size(); i += 3) {
			kfree(blocks[i]);
			blocks[i] = nullptr;
		}
		blocks.push_back(kmalloc(1 << 20, GFP_KERNEL));
		cache = kmem_cache_create("live-test", 200, 0, SLAB_HWCACHE_ALIGN, nullptr);
		for (size_t i = 0; i < 500; i++)
			objects.push_back(kmem_cache_alloc(cache, GFP_KERNEL));
		for (size_t i = 0; i < 300; i++) {
			kmem_cache_free(cache, objects.back());
			objects.pop_back();
		}
	}

	~LiveReader() override
	{
		for (void *p : blocks)
			kfree(p);
		for (void *p : objects)
			kmem_cache_free(cache, p);
		kmem_cache_destroy(cache);
	}

	/* The address of the description's root. */
	live::address root()
	{
		return live::find_libraries(memory).at(0).layout;
	}

	/* The address of the entry @name of the description. */
	live::address entry(const std::string &name)
	{
		live::address entries = 0;
		char text[44];

		EXPECT_TRUE(memory.get(root() + 32, entries));
		for (live::address at = entries; memory.read(at, text, sizeof(text)); at += 64)
			if (name == std::string(text, strnlen(text, sizeof(text))))
				return at;
		ADD_FAILURE() << "no entry " << name;
		return 0;
	}

	fake_process memory;
	std::vector<void *> blocks, objects;
	struct kmem_cache *cache;
};

#endif
