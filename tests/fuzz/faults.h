/* SPDX-License-Identifier: MIT */
/*
 * The system as the fuzz programs pretend it to be: calls that fail now and then, pinned
 * memory without RLIMIT_MEMLOCK, a clock that jumps, CPUs by number.
 */
#ifndef FUZZ_FAULTS_H
#define FUZZ_FAULTS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fuzz
{

enum Call { MMAP, MPROTECT, MADVISE, MBIND, MLOCK, NR_CALLS };

struct Faults {
	unsigned per_mille[NR_CALLS]; /* how often a call fails */
	unsigned every[NR_CALLS];     /* each so-manieth call fails; 0: none */
	size_t pin_limit;	      /* bytes that may be pinned */
};

/* Read-only while the library is at work. */
extern Faults faults;
extern std::atomic<uint64_t> now_ms;

/* The calling thread's. */
extern thread_local unsigned cpu_number;      /* what getcpu() tells */
extern thread_local bool no_system_calls;     /* the next one is a mistake */
extern thread_local unsigned failures;	      /* calls that failed so far */
extern thread_local uint64_t failures_random; /* state of their random numbers; not 0 */

/* Put all this behind os_calls; before the library's initialisation. */
void install_faults();

/* No system call is right while this lives. */
class NoSystemCalls
{
      public:
	explicit NoSystemCalls(bool on = true) : before_(no_system_calls)
	{
		no_system_calls = on || before_;
	}
	~NoSystemCalls()
	{
		no_system_calls = before_;
	}

      private:
	bool before_;
};

} // namespace fuzz

#endif
