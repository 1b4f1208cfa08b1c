/* SPDX-License-Identifier: MIT */
/* What the unit tests share: seeds, child processes, storms, replaced system calls. */
#ifndef UNIT_TEST_UTIL_H
#define UNIT_TEST_UTIL_H

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "os/os.h"
}

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#else
#define TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#else
#define TEST_TSAN 0
#endif
#ifndef UKMEM_DEBUG
#define UKMEM_DEBUG 0
#endif

/* Loops are this much shorter under a sanitizer or with the library's own checks. */
constexpr unsigned kSlow = TEST_ASAN || TEST_TSAN ? 8 : UKMEM_DEBUG ? 2 : 1;

/* How many of the pages from @p's to that of the last of @size bytes are resident. */
inline size_t resident_pages(const char *p, size_t size)
{
	const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	auto *start = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(p) & -page);
	std::vector<unsigned char> pages((p + size - start + page - 1) / page);

	EXPECT_EQ(mincore(start, pages.size() * page, pages.data()), 0);
	return static_cast<size_t>(
		std::count_if(pages.begin(), pages.end(), [](auto c) { return c & 1; }));
}

/* UKMEM_TEST_SEED, or a fresh one; printed, so that a failure can be run again. */
inline uint64_t test_seed()
{
	const char *s = getenv("UKMEM_TEST_SEED");
	uint64_t seed = s ? strtoull(s, nullptr, 0) : std::random_device()();

	printf("UKMEM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
	return seed;
}

/* Seconds that a search takes: UKMEM_STRESS_SECONDS, as short checks set it, or @by_default. */
inline double search_seconds(double by_default)
{
	const char *s = getenv("UKMEM_STRESS_SECONDS");

	return s && atof(s) > 0 ? atof(s) : by_default;
}

/* For searches that have a length of their own: over after UKMEM_STRESS_SECONDS, if that is
 * set. */
class TimeBox
{
      public:
	bool is_over() const
	{
		return Clock::now() - start_ > seconds_;
	}

      private:
	using Clock = std::chrono::steady_clock;
	Clock::time_point start_ = Clock::now();
	std::chrono::duration<double> seconds_{ search_seconds(1e6) };
};

inline bool rseq_is_off()
{
	const char *s = getenv("GLIBC_TUNABLES");

	return TEST_TSAN ||
	       (s && std::string(s).find("glibc.pthread.rseq=0") != std::string::npos);
}

/* Restores the table of system calls. */
class OsCallsGuard
{
      public:
	OsCallsGuard() : saved_(os_calls)
	{
	}
	~OsCallsGuard()
	{
		os_calls = saved_;
	}

      private:
	struct os_calls saved_;
};

/* Runs @body, then ends the process: 0 if nothing in it failed, else 1 with the failures. */
[[noreturn]] inline void exit_after(const std::function<void()> &body)
{
	body();
	auto *result = ::testing::UnitTest::GetInstance()->current_test_info()->result();

	for (int i = 0; i < result->total_part_count(); i++) {
		auto &part = result->GetTestPartResult(i);

		if (part.failed())
			fprintf(stderr, "%s:%d: %s\n", part.file_name(), part.line_number(),
				part.message());
	}
	fflush(nullptr);
	_exit(::testing::Test::HasFailure() ? 1 : 0);
}

/* Ends the child of a fork. By _exit() ThreadSanitizer would report its threads as leaked: it
 * does not know that they stayed behind. */
[[noreturn]] inline void exit_child(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/*
 * Runs the function in a new process in which the library is not initialised yet,
 * and expects that nothing in it fails. The process executes this test from its
 * start, so nothing before may use the library.
 */
#define EXPECT_FRESH_PROCESS_PASSES(...)                                                       \
	do {                                                                                   \
		::testing::FLAGS_gtest_death_test_style = "threadsafe";                        \
		EXPECT_EXIT(exit_after(__VA_ARGS__), ::testing::ExitedWithCode(0), "");        \
	} while (0)

/* The last line of a report of a wrong pointer whose caller is known, for expressions. */
#define FOUND_AT "ukmem:   found at ([^ \n]+ )?\\([^ \n]+\\)\n$"

inline std::vector<int> allowed_cpus()
{
	std::vector<int> cpus;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			cpus.push_back(i);
	return cpus;
}

/* The calling thread runs on @cpu alone from now on. */
inline void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* The calling thread runs on the first of its CPUs, until this is destroyed. */
class OneCpu
{
      public:
	OneCpu()
	{
		sched_getaffinity(0, sizeof(before_), &before_);
		run_on(allowed_cpus().front());
	}
	~OneCpu()
	{
		sched_setaffinity(0, sizeof(before_), &before_);
	}

      private:
	cpu_set_t before_;
};

/* Threads that all start together; each gets its number. */
class Threads
{
      public:
	Threads(unsigned n, std::function<void(unsigned)> body)
	{
		for (unsigned i = 0; i < n; i++)
			threads_.emplace_back([this, body, i, n] {
				ready_++;
				while (ready_ < n)
					std::this_thread::yield();
				body(i);
			});
	}
	~Threads()
	{
		join();
	}
	void join()
	{
		for (auto &t : threads_)
			if (t.joinable())
				t.join();
	}
	std::vector<std::thread> &get()
	{
		return threads_;
	}

      private:
	std::atomic<unsigned> ready_{ 0 };
	std::vector<std::thread> threads_;
};

/* Moves the threads from CPU to CPU, some thousand times a second. */
class MigrationStorm
{
      public:
	explicit MigrationStorm(Threads &threads)
	    : thread_([this, &threads] {
		      auto cpus = allowed_cpus();
		      std::mt19937 random(1);

		      while (!stop_) {
			      for (auto &t : threads.get()) {
				      cpu_set_t set;

				      CPU_ZERO(&set);
				      CPU_SET(cpus[random() % cpus.size()], &set);
				      pthread_setaffinity_np(t.native_handle(), sizeof(set),
							     &set);
			      }
			      std::this_thread::sleep_for(std::chrono::microseconds(200));
		      }
	      })
	{
	}
	~MigrationStorm()
	{
		stop_ = true;
		thread_.join();
	}

      private:
	std::atomic<bool> stop_{ false };
	std::thread thread_;
};

/* In the child ThreadSanitizer begins a thread of its own and reports what libc allocates for
 * it as allocated by the handler. */
#define SKIP_FORK_IN_HANDLER()                                                                 \
	do {                                                                                   \
		if (TEST_TSAN)                                                                 \
			GTEST_SKIP() << "a fork in a handler: ThreadSanitizer reports itself"; \
	} while (0)

/* SIGALRM every @usec to some thread that does not block it; not the one that made this. */
class SignalStorm
{
      public:
	SignalStorm(void (*handler)(int), int usec = 100)
	{
		struct sigaction action = {};
		struct itimerval timer = {};

		action.sa_handler = handler;
		action.sa_flags = SA_RESTART;
		sigaction(SIGALRM, &action, &old_);
		sigemptyset(&set_);
		sigaddset(&set_, SIGALRM);
		timer.it_interval.tv_usec = usec;
		timer.it_value.tv_usec = usec;
		setitimer(ITIMER_REAL, &timer, nullptr);
		/* After the threads were made, which therefore do not block it. */
		pthread_sigmask(SIG_BLOCK, &set_, nullptr);
	}
	~SignalStorm()
	{
		struct itimerval off = {};
		struct timespec none = {};

		setitimer(ITIMER_REAL, &off, nullptr);
		while (sigtimedwait(&set_, nullptr, &none) > 0)
			;
		pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
		sigaction(SIGALRM, &old_, nullptr);
	}

      private:
	struct sigaction old_;
	sigset_t set_;
};

inline size_t number_of_mappings()
{
	FILE *f = fopen("/proc/self/maps", "re");
	size_t lines = 0;

	if (!f)
		abort();
	for (int c; (c = fgetc(f)) != EOF;)
		lines += c == '\n';
	fclose(f);
	return lines;
}

#endif
