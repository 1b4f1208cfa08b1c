/* SPDX-License-Identifier: MIT */
/*
 * What the patterns of bench/workloads and bench/idle are made of: a repeatable
 * source of numbers, objects that are checked, and threads.
 */
#ifndef UKMEM_BENCH_WORKLOAD_H
#define UKMEM_BENCH_WORKLOAD_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

/* xorshift64*: the same sequence in every run of a given seed. */
class Random
{
      public:
	explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1)
	{
	}

	uint32_t bits()
	{
		state_ ^= state_ >> 12;
		state_ ^= state_ << 25;
		state_ ^= state_ >> 27;
		return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1du) >> 32);
	}

	/* A number in [low, high]. */
	uint32_t between(uint32_t low, uint32_t high)
	{
		const uint64_t top = bits();

		return low + static_cast<uint32_t>((top * (high - low + 1)) >> 32);
	}

	/* A number in [low, low << steps), each doubling half as likely as the one before. */
	uint32_t mostly_small(uint32_t low, unsigned steps)
	{
		const uint32_t coins = bits() | 1u << (steps - 1);
		const uint32_t base = low << __builtin_ctz(coins);

		return between(base, 2 * base - 1);
	}

      private:
	uint64_t state_;
};

/*
 * An object: its size and a check of that in the first four bytes, the low byte of its
 * size in the last one. Sizes are 8 at least, and below 32 MiB. What is dropped loses
 * its marks, so that memory that was handed out twice is noticed by the second of its
 * owners.
 */
using Object = unsigned char *;

constexpr unsigned kSizeBits = 25;

inline uint32_t head_of(uint32_t size)
{
	return size | (size * 0x9e3779b1u) >> kSizeBits << kSizeBits;
}

inline void mark_object(Object object, uint32_t size)
{
	const uint32_t head = head_of(size);

	memcpy(object, &head, sizeof(head));
	object[size - 1] = static_cast<unsigned char>(size);
}

inline Object make_object(uint32_t size)
{
	auto object = static_cast<Object>(malloc(size));

	if (object == nullptr) {
		perror("malloc");
		abort();
	}
	mark_object(object, size);
	return object;
}

/* The object's size; ends the process if something else wrote to the marks. */
inline uint32_t check_object(Object object)
{
	uint32_t head;

	memcpy(&head, object, sizeof(head));

	const uint32_t size = head & ((1u << kSizeBits) - 1);

	if (size < 8 || head != head_of(size) ||
	    object[size - 1] != static_cast<unsigned char>(size)) {
		fprintf(stderr, "object %p was overwritten, its head is %x\n",
			static_cast<void *>(object), head);
		abort();
	}
	return size;
}

inline void drop_object(Object object)
{
	check_object(object);
	memset(object, 0, sizeof(uint32_t));
	free(object);
}

/* Of a slot that may be empty. */
inline void drop_if_any(Object object)
{
	if (object != nullptr)
		drop_object(object);
}

/*
 * A batch of one size, of which the last third is freed in reverse and the first one in
 * order: the middle is left.
 */
template <size_t count> void make_batch(Object (&batch)[count], uint32_t size)
{
	for (Object &object : batch)
		object = make_object(size);
	for (size_t k = count; k > 2 * count / 3; k--)
		drop_object(batch[k - 1]);
	for (size_t k = 0; k < count / 3; k++)
		drop_object(batch[k]);
}

inline void drop_all(std::vector<Object> &objects)
{
	for (Object object : objects)
		drop_if_any(object);
	objects.clear();
}

/* body(0) ... body(count - 1), each in a thread of its own; a single one in the caller's. */
template <typename Body> void run_threads(unsigned count, Body body)
{
	std::vector<std::thread> threads;

	if (count == 1) {
		body(0);
		return;
	}
	threads.reserve(count);
	for (unsigned i = 0; i < count; i++)
		threads.emplace_back(body, i);
	for (auto &thread : threads)
		thread.join();
}

/* The one of a program's scenarios that is called @name, or NULL. */
template <typename Scenario, size_t n>
const Scenario *find_scenario(const Scenario (&scenarios)[n], const char *name)
{
	for (const Scenario &scenario : scenarios)
		if (strcmp(scenario.name, name) == 0)
			return &scenario;
	return nullptr;
}

/* Prints their names, for `--list`. */
template <typename Scenario, size_t n> void list_scenarios(const Scenario (&scenarios)[n])
{
	for (const Scenario &scenario : scenarios)
		puts(scenario.name);
}

/* A share of @total, at least 1. */
inline size_t share(double total, double scale, double parts)
{
	return static_cast<size_t>(total * scale / parts) + 1;
}

/*
 * A line of /proc/self/status in KiB. The peak is VmHWM: getrusage's ru_maxrss survives
 * exec, so that a small program reports the size of whatever started it.
 */
inline long status_kib(const std::string &name)
{
	std::ifstream status("/proc/self/status");
	std::string line;

	while (std::getline(status, line)) {
		if (line.rfind(name + ":", 0) == 0)
			return strtol(line.c_str() + name.size() + 1, nullptr, 10);
	}
	return -1;
}

/*
 * The patterns: each does an amount of work that depends on @scale, not on the
 * number of threads.
 */
void producer_consumer(unsigned threads, double scale); /* workload_passed.cpp */
void xmalloc(unsigned threads, double scale);
void larson(unsigned threads, double scale);
void larson_many(unsigned threads, double scale);
void thread_churn(unsigned threads, double scale);
void mstress(unsigned threads, double scale); /* workload_mixed.cpp */
void rptest(unsigned threads, double scale);
void sh8(unsigned threads, double scale);
void sh6(unsigned threads, double scale); /* workload_own.cpp */
void alloc_test(unsigned threads, double scale);
void glibc_simple(unsigned threads, double scale);
void glibc_thread(unsigned threads, double scale);
void cache_scratch(unsigned threads, double scale);
void cache_thrash(unsigned threads, double scale);
void malloc_large(unsigned threads, double scale);

#endif
