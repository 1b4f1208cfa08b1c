/* SPDX-License-Identifier: MIT */
/*
 * workloads - multithreaded patterns that are hard on allocators.
 *
 * usage: workloads NAME THREADS [SCALE]
 *        workloads --list
 *
 * Each pattern does a fixed amount of work, whatever the number of threads, and
 * prints one line of JSON: wall-clock and CPU seconds, the peak resident size of
 * the process, and the file that malloc came from. SCALE multiplies the work.
 * bench/run preloads one allocator after the other.
 *
 * Every object carries marks in its first and last bytes which are checked
 * before it is freed: an allocator that hands out overlapping memory does not
 * get a time, it gets an abort.
 */
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "malloc_origin.h"

namespace
{

/* xorshift64*: the same sequence in every run of a given seed. */
class Random
{
      public:
	explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1)
	{
	}

	/* A number in [low, high]. */
	uint32_t between(uint32_t low, uint32_t high)
	{
		state_ ^= state_ >> 12;
		state_ ^= state_ << 25;
		state_ ^= state_ >> 27;
		const uint64_t top = (state_ * 0x2545f4914f6cdd1du) >> 32;
		return low + static_cast<uint32_t>((top * (high - low + 1)) >> 32);
	}

      private:
	uint64_t state_;
};

/*
 * An object: its size in the first four bytes, the low byte of its size in the
 * last one. Sizes are 8 at least.
 */
using Object = unsigned char *;

Object make_object(uint32_t size)
{
	auto object = static_cast<Object>(malloc(size));

	if (object == nullptr) {
		perror("malloc");
		abort();
	}
	memcpy(object, &size, sizeof(size));
	object[size - 1] = static_cast<unsigned char>(size);
	return object;
}

void drop_object(Object object)
{
	uint32_t size;

	memcpy(&size, object, sizeof(size));
	if (object[size - 1] != static_cast<unsigned char>(size)) {
		fprintf(stderr, "workloads: object %p of %u bytes was overwritten\n",
			static_cast<void *>(object), size);
		abort();
	}
	free(object);
}

template <typename Body> void run_threads(unsigned count, Body body)
{
	std::vector<std::thread> threads;

	threads.reserve(count);
	for (unsigned i = 0; i < count; i++)
		threads.emplace_back(body, i);
	for (auto &thread : threads)
		thread.join();
}

/* Keeps the calling thread on the @nth CPU the process may use, counted in a circle. */
void stay_on_cpu(unsigned nth)
{
	cpu_set_t allowed, chosen;

	if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) != 0)
		return;
	nth %= static_cast<unsigned>(CPU_COUNT(&allowed));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && nth-- == 0) {
			CPU_ZERO(&chosen);
			CPU_SET(cpu, &chosen);
			sched_setaffinity(0, sizeof(chosen), &chosen);
			return;
		}
	}
}

/*
 * A bounded queue of batches between one producer and one consumer. The slots
 * are filled and emptied in place, outside the lock, so that a transfer costs
 * one short critical section per batch and allocates nothing. Who has to wait
 * sleeps until the queue is half full or half empty: otherwise the two would
 * wake each other for every batch and the kernel's scheduler be measured.
 *
 *	[emptied_, filled_)		slots the consumer may read
 *	[filled_, emptied_ + kSlots)	slots the producer may fill
 */
class BatchQueue
{
      public:
	static constexpr size_t kSlots = 32;
	static constexpr size_t kBatch = 128;
	using Batch = std::array<Object, kBatch>;

	Batch &wait_for_room()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		if (used() == kSlots)
			room_.wait(lock, [this] { return used() <= kSlots / 2; });
		return slots_[filled_ % kSlots];
	}

	void publish()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		filled_++;
		if (used() >= kSlots / 2)
			items_.notify_one();
	}

	/* No batch follows those published. */
	void close()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		closed_ = true;
		items_.notify_one();
	}

	/* The oldest batch, or NULL when the queue is closed and empty. */
	Batch *wait_for_batch()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		if (used() == 0)
			items_.wait(lock, [this] { return used() >= kSlots / 2 || closed_; });
		return used() > 0 ? &slots_[emptied_ % kSlots] : nullptr;
	}

	void release()
	{
		std::lock_guard<std::mutex> lock(mutex_);

		emptied_++;
		if (used() <= kSlots / 2)
			room_.notify_one();
	}

      private:
	size_t used() const
	{
		return filled_ - emptied_;
	}

	std::mutex mutex_;
	std::condition_variable room_, items_;
	size_t filled_ = 0, emptied_ = 0;
	bool closed_ = false;
	std::array<Batch, kSlots> slots_;
};

/*
 * One half of the threads only allocates, the other half only frees; in pairs.
 * The two of a pair stay on neighbouring CPUs: left to the scheduler they share
 * one CPU in some runs and not in others, which is a factor of four in time.
 */
void producer_consumer(unsigned threads, double scale)
{
	constexpr double kObjects = 5e6;
	const unsigned pairs = threads / 2;
	const auto batches =
		static_cast<size_t>(kObjects * scale / pairs / BatchQueue::kBatch) + 1;
	const std::unique_ptr<BatchQueue[]> queues(new BatchQueue[pairs]);

	const auto produce = [&](unsigned pair) {
		Random random(pair);

		for (size_t i = 0; i < batches; i++) {
			for (Object &object : queues[pair].wait_for_room())
				object = make_object(random.between(16, 512));
			queues[pair].publish();
		}
		queues[pair].close();
	};
	const auto consume = [&](unsigned pair) {
		while (BatchQueue::Batch *batch = queues[pair].wait_for_batch()) {
			for (Object object : *batch)
				drop_object(object);
			queues[pair].release();
		}
	};
	run_threads(2 * pairs, [&](unsigned i) {
		stay_on_cpu(i);
		if (i % 2 == 0)
			produce(i / 2);
		else
			consume(i / 2);
	});
}

/*
 * After Larson and Krishnan's server simulation: every thread owns an array of
 * objects and replaces random ones; each generation of threads then ends and
 * leaves its arrays to the next, so that memory is freed by threads that did not
 * allocate it, long after the ones that did are gone.
 */
void larson(unsigned threads, double scale)
{
	constexpr double kReplacements = 20e6;
	constexpr unsigned kGenerations = 8;
	constexpr uint32_t kArray = 1000;
	const auto replacements =
		static_cast<size_t>(kReplacements * scale / kGenerations / threads) + 1;
	std::vector<std::vector<Object>> arrays(threads, std::vector<Object>(kArray));

	run_threads(threads, [&](unsigned i) {
		Random random(i);

		for (Object &object : arrays[i])
			object = make_object(random.between(8, 1024));
	});
	for (unsigned generation = 1; generation <= kGenerations; generation++) {
		run_threads(threads, [&](unsigned i) {
			std::vector<Object> &array = arrays[(i + generation) % threads];
			Random random(generation * threads + i);

			for (size_t n = 0; n < replacements; n++) {
				Object &object = array[random.between(0, kArray - 1)];

				drop_object(object);
				object = make_object(random.between(8, 1024));
			}
		});
	}
	for (const auto &array : arrays) {
		for (Object object : array)
			drop_object(object);
	}
}

/*
 * Many short-lived threads: each frees what a thread before it left behind,
 * allocates, frees most of it and leaves every fourth object to its heir.
 */
void thread_churn(unsigned threads, double scale)
{
	constexpr double kLives = 6e3;
	constexpr uint32_t kObjects = 512;
	const auto generations = static_cast<unsigned>(kLives * scale / threads) + 1;
	std::vector<std::vector<Object>> left(threads, std::vector<Object>(kObjects / 4));
	auto taken = left;

	for (unsigned generation = 0; generation <= generations; generation++) {
		std::swap(left, taken);
		run_threads(threads, [&](unsigned i) {
			Random random(generation * threads + i);
			Object own[kObjects];

			if (generation > 0) {
				for (Object object : taken[(i + 1) % threads])
					drop_object(object);
			}
			for (Object &object : own)
				object = make_object(random.between(16, 2048));
			for (uint32_t n = 0; n < kObjects; n++) {
				if (n % 4 == 0)
					left[i][n / 4] = own[n];
				else
					drop_object(own[n]);
			}
		});
	}
	for (const auto &objects : left) {
		for (Object object : objects)
			drop_object(object);
	}
}

struct Workload {
	const char *name;
	void (*run)(unsigned threads, double scale);
};

constexpr Workload kWorkloads[] = {
	{ "producer_consumer", producer_consumer },
	{ "larson", larson },
	{ "thread_churn", thread_churn },
};

/*
 * VmHWM of /proc/self/status, in KiB. Not getrusage: its ru_maxrss survives
 * exec, so that a small program reports the size of whatever started it.
 */
long peak_rss_kib()
{
	std::ifstream status("/proc/self/status");
	std::string line;

	while (std::getline(status, line)) {
		if (line.rfind("VmHWM:", 0) == 0)
			return strtol(line.c_str() + strlen("VmHWM:"), nullptr, 10);
	}
	return -1;
}

double cpu_seconds()
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int measure(const Workload &workload, unsigned threads, double scale)
{
	const auto start = std::chrono::steady_clock::now();

	workload.run(threads, scale);

	const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

	printf("{\"workload\": \"%s\", \"threads\": %u, \"seconds\": %.6f, ", workload.name,
	       threads, elapsed.count());
	printf("\"cpu_seconds\": %.6f, \"peak_rss_kib\": %ld, ", cpu_seconds(), peak_rss_kib());
	printf("\"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (const Workload &workload : kWorkloads)
			puts(workload.name);
		return 0;
	}
	if (argc == 3 || argc == 4) {
		const int threads = atoi(argv[2]);
		const double scale = argc == 4 ? atof(argv[3]) : 1;

		for (const Workload &workload : kWorkloads) {
			if (strcmp(argv[1], workload.name) == 0 && threads >= 2 && scale > 0)
				return measure(workload, static_cast<unsigned>(threads), scale);
		}
	}
	fprintf(stderr,
		"usage: %s NAME THREADS [SCALE]   (THREADS >= 2, SCALE > 0)\n"
		"       %s --list\n",
		argv[0], argv[0]);
	return 2;
}
