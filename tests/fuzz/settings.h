/* SPDX-License-Identifier: MIT */
/* The machine, the tunables and the failures that a seed chooses. */
#ifndef FUZZ_SETTINGS_H
#define FUZZ_SETTINGS_H

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fuzz
{

using Random = std::mt19937_64;

/* Sanitizers have their shadow where scarce address space would be used. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

/* CPUs that are pretended, at least; there may be more. */
constexpr unsigned kCpus = 8;

/* A number of seconds from now; never, if 0. */
class Deadline
{
      public:
	explicit Deadline(uint64_t seconds)
	    : seconds_(seconds), end_(Clock::now() + std::chrono::seconds(seconds))
	{
	}
	bool is_over() const
	{
		return seconds_ && Clock::now() >= end_;
	}

      private:
	using Clock = std::chrono::steady_clock;
	uint64_t seconds_;
	Clock::time_point end_;
};

/* The CPUs that this thread may really run on. */
std::vector<int> allowed_cpus();

struct Settings {
	unsigned nodes;	  /* by numa_fake, or of a pretend machine */
	bool machine;	  /* a pretend machine, which may take nodes away */
	bool scarce;	  /* address space is */
	bool small_zones; /* so small that their ends are reached */
	bool faults;	  /* system calls fail */
	std::string conf; /* for UKMEM_CONF */
	std::string as_text() const;
};

/* The same for the same seed. */
Settings settings_of(uint64_t seed);
/* Make it so; before the library's initialisation. */
void settings_apply(const Settings &settings, uint64_t seed);

/* Nodes of a pretend machine that the process may use, a bit each. */
extern unsigned long mems_allowed;

/* A machine of @nodes nodes, CPU i on node i % @nodes, with distances of its own. */
void pretend_machine(unsigned nodes);
int pretend_distance(unsigned from, unsigned to);

} // namespace fuzz

#endif
