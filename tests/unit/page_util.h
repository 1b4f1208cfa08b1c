/* SPDX-License-Identifier: MIT */
/* What the tests of the page layer share: filling it, its texts, its invariants. */
#ifndef UNIT_PAGE_UTIL_H
#define UNIT_PAGE_UTIL_H

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "page_shim.h"
#include "printed.h"
#include "ukmem/ukmem.h"

constexpr size_t kMiB = 1u << 20;

using Pages = std::vector<struct page *>;

inline void configure(const std::string &conf)
{
	setenv("UKMEM_CONF", conf.c_str(), 1);
}

inline size_t to_pages(size_t bytes)
{
	return bytes / ukmem_page_size();
}

inline void touch(struct page *page, unsigned order, int value = 1)
{
	memset(page_address(page), value, ukmem_page_size() << order);
}

/* Runs of @order until there are no more, or @most of them. Only with @write resident. */
inline Pages fill(gfp_t flags, unsigned order, size_t most = SIZE_MAX, bool write = false)
{
	Pages pages;

	while (pages.size() < most) {
		struct page *p = alloc_pages(flags | __GFP_NOWARN, order);

		if (!p)
			break;
		if (write)
			touch(p, order);
		pages.push_back(p);
	}
	return pages;
}

inline Pages fill_node(int nid, gfp_t flags, unsigned order, size_t most = SIZE_MAX,
		       bool write = false)
{
	Pages pages;

	while (pages.size() < most) {
		struct page *p =
			alloc_pages_node(nid, flags | __GFP_NOWARN | __GFP_THISNODE, order);

		if (!p)
			break;
		if (write)
			touch(p, order);
		pages.push_back(p);
	}
	return pages;
}

inline void free_all(Pages &pages, unsigned order)
{
	for (auto *p : pages)
		__free_pages(p, order);
	pages.clear();
}

inline shim_limits limits()
{
	shim_limits l;

	shim_limits_read(&l);
	return l;
}

inline shim_zone zone(unsigned i = 0)
{
	shim_zone z;

	shim_zone_read(i, &z);
	return z;
}

/* Waits until a thread has set @done. One that stands still cannot be joined. */
inline void wait_or_abort(const std::atomic<bool> &done, int most_ms)
{
	for (int ms = 0; !done; ms++) {
		if (ms > most_ms)
			abort();
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}

/* Another thread holds the lock of the first zone until this object is gone. If that takes
 * long, somebody waits for it. */
class ZoneHolder
{
      public:
	ZoneHolder() : thread_([this] { hold(); })
	{
		while (!held_)
			usleep(100);
	}

	~ZoneHolder()
	{
		done_ = true;
		thread_.join();
	}

      private:
	void hold()
	{
		while (!shim_zone_trylock(0))
			usleep(100);
		held_ = true;
		for (int ms = 0; ms < 5000 && !done_; ms++)
			usleep(1000);
		EXPECT_TRUE(done_) << "a request waits";
		shim_zone_unlock(0);
	}

	std::atomic_bool held_{ false }, done_{ false };
	std::thread thread_;
};

/* The background thread may have a block off the lists while it gives its memory back. */
inline void expect_whole()
{
	for (unsigned i = 0; i < shim_all_zones(); i++) {
		const char *wrong = shim_zone_wrong(i);

		for (int ms = 0; ms < 5000 && wrong && strstr(wrong, "isolated"); ms++) {
			usleep(1000);
			wrong = shim_zone_wrong(i);
		}
		ASSERT_STREQ(wrong, nullptr) << "zone " << i;
	}
}

/* After everything was freed: nothing is in use in any zone. */
inline void expect_all_free()
{
	shim_trim(true);
	for (unsigned i = 0; i < shim_all_zones(); i++) {
		shim_zone z = zone(i);

		for (int ms = 0; ms < 5000 && z.nr_free != z.present; ms++, z = zone(i))
			usleep(1000);
		ASSERT_EQ(z.used, 0u) << "zone " << i;
		ASSERT_EQ(z.nr_free, z.present) << "zone " << i;
	}
	expect_whole();
}

/* One line of ukmem_vmstat_print(). */
inline unsigned long vmstat(const std::string &name)
{
	std::istringstream lines(printed(ukmem_vmstat_print));
	std::string key;
	unsigned long value;

	while (lines >> key >> value)
		if (key == name)
			return value;
	ADD_FAILURE() << "no " << name << " in vmstat";
	return 0;
}

/* The number after @key in a file of procfs; 0: none. */
inline size_t proc_number(const char *path, const char *key)
{
	char line[256];
	size_t value = 0;
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = strtoul(line + strlen(key), nullptr, 10);
	if (f)
		fclose(f);
	return value;
}

/* Of the whole process, bytes. */
inline size_t process_locked()
{
	return proc_number("/proc/self/status", "VmLck:") * 1024;
}

inline size_t process_resident()
{
	return proc_number("/proc/self/status", "RssAnon:") * 1024;
}

#endif
