// SPDX-License-Identifier: MIT
// What a reader of the heap profile estimates, and how near that must be to exact counts.
#ifndef UNIT_PROFILE_UTIL_H
#define UNIT_PROFILE_UTIL_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <ukmem/profile.h>
#include <ukmem/stats.h>

extern "C" {
#include "base/config.h"
}

inline size_t interval = 16384;

// The interval is short, so that there are many samples: they may cost what they do.
inline const bool unbounded = [] {
	config_init();
	config.profile_cpu = 0;
	return true;
}();

struct counts {
	double live = 0, live_bytes = 0, allocs = 0, alloc_bytes = 0;
	double variance = 0; // of alloc_bytes
};

struct site {
	counts raw;
	std::vector<uintptr_t> pc;
};

inline std::string dump()
{
	int fd = memfd_create("profile", 0);
	std::string text;
	char buf[65536];
	ssize_t n;

	EXPECT_EQ(ukmem_profile_dump(fd), 0);
	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		text.append(buf, (size_t)n);
	close(fd);
	return text;
}

inline std::vector<site> sites()
{
	std::istringstream in(dump());
	std::vector<site> all;
	std::string line;

	std::getline(in, line);
	EXPECT_NE(line.find("heap_v2/" + std::to_string(interval)), std::string::npos) << line;
	while (std::getline(in, line) && !line.empty()) {
		unsigned long long a, b, c, d;
		int at = 0;
		site s;

		EXPECT_EQ(std::sscanf(line.c_str(), "%llu: %llu [%llu: %llu] @%n", &a, &b, &c,
				      &d, &at),
			  4)
			<< line;
		s.raw = { (double)a, (double)b, (double)c, (double)d };
		std::istringstream pcs(line.substr((size_t)at));
		for (std::string pc; pcs >> pc;)
			s.pc.push_back(std::stoul(pc, nullptr, 16));
		all.push_back(s);
	}
	return all;
}

// What a reader of the format estimates, of all sites for which @which is true.
template <typename F> counts estimate(const std::vector<site> &all, F which)
{
	counts sum;

	for (const site &s : all) {
		if (!which(s) || s.raw.allocs == 0)
			continue;
		double size = s.raw.alloc_bytes / s.raw.allocs;
		double p = 1 - std::exp(-size / (double)interval);

		sum.live += s.raw.live / p;
		sum.live_bytes += s.raw.live_bytes / p;
		sum.allocs += s.raw.allocs / p;
		sum.alloc_bytes += s.raw.alloc_bytes / p;
		sum.variance += s.raw.allocs * (1 - p) / p / p * size * size;
	}
	return sum;
}

inline bool passes(const site &s, void *from, void *to)
{
	for (uintptr_t pc : s.pc)
		if (pc > (uintptr_t)from && pc < (uintptr_t)to)
			return true;
	return false;
}

inline counts difference(counts a, const counts &b)
{
	a.live -= b.live;
	a.live_bytes -= b.live_bytes;
	a.allocs -= b.allocs;
	a.alloc_bytes -= b.alloc_bytes;
	a.variance -= b.variance;
	return a;
}

// Five standard deviations: a right estimator fails once in a million.
inline void expect_near(double estimate, double exact, double variance)
{
	EXPECT_LT(std::abs(estimate - exact), 5 * std::sqrt(variance) + 1)
		<< "estimate " << estimate << ", exact " << exact << ", deviation "
		<< std::sqrt(variance);
}

inline bool any(const site &)
{
	return true;
}

class Profile : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		before = estimate(sites(), any);
	}
	void TearDown() override
	{
		EXPECT_EQ(ukmem_profile_stop(), 0);
		EXPECT_EQ(ukmem_verify(stderr), 0);
	}
	counts grown()
	{
		return difference(estimate(sites(), any), before);
	}
	counts before;
};

#endif
