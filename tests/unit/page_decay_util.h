/* SPDX-License-Identifier: MIT */
/* A clock that tests of decay and purges turn, and programs that use memory by it. */
#ifndef UNIT_PAGE_DECAY_UTIL_H
#define UNIT_PAGE_DECAY_UTIL_H

#include <vector>

#include "fake_clock.h"
#include "page_util.h"
#include "test_util.h"

/* The shadow that ThreadSanitizer keeps of each page stays when the page goes. */
#define SKIP_WHERE_SHADOWS_STAY()                                                              \
	do {                                                                                   \
		if (TEST_TSAN)                                                                 \
			GTEST_SKIP() << "ThreadSanitizer's shadow memory stays resident";      \
	} while (0)

/* A program that stands nearly still: one request each half second. */
inline void little_activity(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		fake_now += 500;
		void *p = kmalloc(300000, GFP_KERNEL);
		*static_cast<char *>(p) = 1;
		kfree(p);
	}
}

inline std::vector<void *> peak(size_t bytes, size_t size)
{
	std::vector<void *> live;

	for (size_t sum = 0; sum < bytes; sum += size) {
		void *p = kmalloc(size, GFP_KERNEL);

		if (!p)
			break;
		memset(p, 1, size);
		live.push_back(p);
	}
	return live;
}

inline void free_peak(std::vector<void *> &live)
{
	for (void *p : live)
		kfree(p);
	live.clear();
}

#endif
