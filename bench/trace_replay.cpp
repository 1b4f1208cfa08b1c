/* SPDX-License-Identifier: MIT */
/*
 * trace_replay - asks malloc for what a recorded program asked for (trace_format.h).
 *
 * usage: trace_replay FILE [TIMES]
 *
 * Each thread of the trace is a thread here, and its events keep their order. Between threads
 * what counts is kept: a thread begins after the event that came before its first one, and a
 * free waits until the object is there. The rest of the order is that of this run. Objects are
 * written to, one byte in each page; whatever the trace leaves allocated is freed after each
 * time.
 *
 * The trace lies in memory of its own, outside the measured malloc. Prints a line of JSON:
 * events, threads, seconds and CPU seconds, the payload (bytes asked for that were not freed)
 * at its peak and at the end, the resident memory at its peak and at the end, each without what
 * was resident at the start, and the file that malloc came from. bench/trace preloads one
 * allocator after the other.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include <malloc.h>

#include "die.h"
#include "malloc_origin.h"
#include "resident.h"
#include "trace_format.h"
#include "workload.h"

namespace
{

constexpr size_t kPage = 4096;
/* In the place of an object's size; no malloc has so many bytes. */
constexpr uint64_t kFreed = UINT64_MAX;

/* Memory for the trace: not of the malloc that is measured. */
template <typename T> struct Mapped {
	using value_type = T;

	Mapped() = default;
	template <typename U> explicit Mapped(const Mapped<U> & /* other */)
	{
	}

	T *allocate(size_t n)
	{
		void *memory = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			die("no memory for the trace");
		return static_cast<T *>(memory);
	}

	void deallocate(T *memory, size_t n)
	{
		munmap(memory, n * sizeof(T));
	}

	bool operator==(const Mapped & /* other */) const
	{
		return true;
	}
	bool operator!=(const Mapped & /* other */) const
	{
		return false;
	}
};

template <typename T> using Array = std::vector<T, Mapped<T>>;

struct Event {
	uint64_t size;
	uint32_t object, old; /* numbers of allocations */
	uint8_t kind, log2_align;
};

/* A thread of the trace. Synchronization: done is atomic, the rest is only read. */
struct Thread {
	Array<Event> events;
	uint32_t after_thread = 0; /* it begins when this one has done so many events */
	size_t after_events = 0;
};

struct Trace {
	Array<Thread> threads;
	Array<uint64_t> sizes; /* by numbers of allocations; kFreed */
	uint64_t events = 0, payload = 0, peak_payload = 0;
};

/* Reads the numbers of a trace; a trace that is cut ends at its last whole event. */
class Reader
{
      public:
	explicit Reader(const char *name)
	{
		struct stat status;
		const int file = open(name, O_RDONLY | O_CLOEXEC);

		if (file < 0 || fstat(file, &status) != 0)
			die(std::string(name) + " cannot be read");
		bytes_ = static_cast<size_t>(status.st_size);
		void *memory = mmap(nullptr, bytes_ + 1, PROT_READ, MAP_PRIVATE, file, 0);

		close(file);
		if (bytes_ < TRACE_MAGIC_BYTES || memory == MAP_FAILED ||
		    memcmp(memory, TRACE_MAGIC, TRACE_MAGIC_BYTES) != 0)
			die(std::string(name) + " is no trace; is it packed?");
		begin_ = static_cast<const unsigned char *>(memory);
		mapped_ = bytes_ + 1;
		at_ = TRACE_MAGIC_BYTES;
		leave_padding();
	}

	~Reader()
	{
		munmap(const_cast<unsigned char *>(begin_), mapped_);
	}

	/* The next event and its first number; false at the end. */
	bool next(unsigned &event, uint64_t &first)
	{
		if (at_ >= bytes_)
			return false;
		const unsigned head = begin_[at_++];

		event = head & ((1u << TRACE_EVENT_BITS) - 1);
		first = head >> TRACE_EVENT_BITS;
		return first != TRACE_SHORT || number(first);
	}

	bool number(uint64_t &value)
	{
		value = 0;
		for (unsigned shift = 0; at_ < bytes_; shift += 7) {
			if (shift >= 64)
				die("the trace has a number that is too long");
			const unsigned byte = begin_[at_++];

			value |= static_cast<uint64_t>(byte & 0x7f) << shift;
			if (byte < 0x80)
				return true;
		}
		return false;
	}

      private:
	/* The zeros behind a program that was killed; fewer may be of an event. */
	void leave_padding()
	{
		size_t end = bytes_;

		while (end > TRACE_MAGIC_BYTES && begin_[end - 1] == 0)
			end--;
		if (bytes_ - end >= TRACE_PADDING)
			bytes_ = end;
	}

	const unsigned char *begin_;
	size_t mapped_ = 0, bytes_ = 0, at_ = 0;
};

class Decoder
{
      public:
	explicit Decoder(const char *name) : reader_(name)
	{
	}

	Trace decode()
	{
		unsigned kind;
		uint64_t first;

		while (reader_.next(kind, first))
			if (!event(kind, first))
				break;
		return std::move(trace_);
	}

      private:
	bool event(unsigned kind, uint64_t first)
	{
		Event found{};
		uint64_t second = 0;

		if (kind == TRACE_THREAD) {
			select(first);
			return true;
		}
		if (kind == TRACE_LOST)
			return false;
		if (kind > TRACE_LOST)
			die("the trace has an unknown event");
		if ((kind == TRACE_ALIGNED || kind == TRACE_REALLOC) && !reader_.number(second))
			return false;
		if (kind == TRACE_ALIGNED && second >= 64)
			die("the trace has an alignment that does not exist");
		if (kind != TRACE_FREE && first > PTRDIFF_MAX)
			die("the trace has a size that no malloc gives");
		found.kind = static_cast<uint8_t>(kind);
		found.size = first;
		found.log2_align = static_cast<uint8_t>(kind == TRACE_ALIGNED ? second : 0);
		if (kind == TRACE_REALLOC || kind == TRACE_FREE)
			found.old = release(kind == TRACE_FREE ? first : second);
		if (kind != TRACE_FREE)
			found.object = number(first);
		if (trace_.threads.empty())
			select(0);
		trace_.threads[thread_].events.push_back(found);
		trace_.events++;
		return true;
	}

	void select(uint64_t thread)
	{
		if (thread > trace_.threads.size())
			die("the trace leaves out a thread");
		if (thread == trace_.threads.size()) {
			trace_.threads.emplace_back();
			if (thread > 0) {
				trace_.threads.back().after_thread = thread_;
				trace_.threads.back().after_events =
					trace_.threads[thread_].events.size();
			}
		}
		thread_ = static_cast<uint32_t>(thread);
	}

	uint32_t number(uint64_t size)
	{
		if (trace_.sizes.size() > UINT32_MAX)
			die("the trace has too many allocations");
		trace_.sizes.push_back(size);
		trace_.payload += size;
		trace_.peak_payload = std::max(trace_.peak_payload, trace_.payload);
		return static_cast<uint32_t>(trace_.sizes.size() - 1);
	}

	uint32_t release(uint64_t distance)
	{
		if (distance >= trace_.sizes.size())
			die("the trace frees what it did not allocate");
		const size_t object = trace_.sizes.size() - 1 - distance;

		if (trace_.sizes[object] == kFreed)
			die("the trace frees an object twice");
		trace_.payload -= trace_.sizes[object];
		trace_.sizes[object] = kFreed;
		return static_cast<uint32_t>(object);
	}

	Reader reader_;
	Trace trace_;
	uint32_t thread_ = 0;
};

/* One byte in each page. */
void *touch(void *object, uint64_t size)
{
	auto *bytes = static_cast<volatile unsigned char *>(object);

	if (object == nullptr)
		die("malloc returned NULL");
	for (uint64_t at = 0; at < size; at += kPage)
		bytes[at] = 1;
	return object;
}

class Replay
{
      public:
	explicit Replay(const Trace &trace)
	    : trace_(trace), objects_(trace.sizes.size()), done_(trace.threads.size())
	{
	}

	void once()
	{
		Array<std::thread> threads;

		for (auto &done : done_)
			done.store(0, std::memory_order_relaxed);
		threads.reserve(trace_.threads.size());
		for (uint32_t i = 1; i < trace_.threads.size(); i++)
			threads.emplace_back([this, i] { run(i); });
		run(0);
		for (auto &thread : threads)
			thread.join();
	}

	/* What the trace leaves. */
	void free_all()
	{
		for (auto &object : objects_)
			if (void *left = object.exchange(nullptr, std::memory_order_relaxed))
				free(left);
	}

      private:
	void run(uint32_t number)
	{
		const Thread &thread = trace_.threads[number];

		if (number > 0) {
			while (done_[thread.after_thread].load(std::memory_order_acquire) <
			       thread.after_events)
				sched_yield();
		}
		for (size_t i = 0; i < thread.events.size(); i++) {
			replay(thread.events[i]);
			done_[number].store(i + 1, std::memory_order_release);
		}
	}

	/* Another thread may be about to allocate it. */
	void *take(uint32_t object)
	{
		void *found;

		while ((found = objects_[object].load(std::memory_order_acquire)) == nullptr)
			sched_yield();
		objects_[object].store(nullptr, std::memory_order_relaxed);
		return found;
	}

	void replay(const Event &event)
	{
		void *object = nullptr;

		switch (event.kind) {
		case TRACE_MALLOC:
			object = malloc(event.size);
			break;
		case TRACE_CALLOC:
			object = calloc(1, event.size);
			break;
		case TRACE_ALIGNED:
			object = memalign(size_t{ 1 } << event.log2_align, event.size);
			break;
		case TRACE_REALLOC:
			object = realloc(take(event.old), event.size);
			break;
		default:
			free(take(event.old));
			return;
		}
		objects_[event.object].store(touch(object, event.size),
					     std::memory_order_release);
	}

	const Trace &trace_;
	Array<std::atomic<void *>> objects_;
	Array<std::atomic<size_t>> done_;
};

double cpu_seconds()
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* VmHWM begins anew. */
void forget_peak()
{
	const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, "5", 1) != 1)
		die("/proc/self/clear_refs cannot be written");
	close(file);
}

int measure(const char *name, unsigned times)
{
	const Trace trace = Decoder(name).decode();

	if (trace.events == 0)
		die("the trace has no events");
	Replay replay(trace);
	long resident = 0;

	forget_peak();
	const long start = resident_kib();
	const double cpu = cpu_seconds();
	const auto begin = std::chrono::steady_clock::now();

	for (unsigned i = 0; i < times; i++) {
		replay.once();
		resident = resident_kib();
		replay.free_all();
	}
	const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
	const double used = cpu_seconds() - cpu;
	const long peak = status_kib("VmHWM");

	printf("{\"events\": %llu, \"threads\": %zu, \"times\": %u, ",
	       static_cast<unsigned long long>(trace.events), trace.threads.size(), times);
	printf("\"seconds\": %.6f, \"cpu_seconds\": %.6f, ", took.count(), used);
	printf("\"payload_peak_kib\": %llu, \"payload_end_kib\": %llu, ",
	       static_cast<unsigned long long>(trace.peak_payload / 1024),
	       static_cast<unsigned long long>(trace.payload / 1024));
	printf("\"resident_peak_kib\": %ld, \"resident_end_kib\": %ld, ", peak - start,
	       resident - start);
	printf("\"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	const int times = argc == 3 ? atoi(argv[2]) : 1;

	if ((argc == 2 || argc == 3) && times > 0)
		return measure(argv[1], static_cast<unsigned>(times));
	fprintf(stderr, "usage: %s FILE [TIMES]\n", argv[0]);
	return 2;
}
