/* SPDX-License-Identifier: MIT */
/*
 * longrun - the memory of a server that runs for long.
 *
 * usage: longrun SECONDS [MIB]
 *
 * A thread for each CPU handles requests at a fixed rate, the same for every allocator. A
 * request takes some buffers, which it frees at its end, and puts or replaces entries of a
 * cache: an entry, its key and its value, allocated one by one. Sizes of keys and values are
 * those of the general-purpose pool ("ETC") of Memcached at Facebook:
 *
 *   B. Atikoglu, Y. Xu, E. Frachtenberg, S. Jiang, M. Paleczny: Workload Analysis of a
 *   Large-Scale Key-Value Store. SIGMETRICS 2012, section 5.
 *
 * keys a generalized extreme value distribution (mu 30.8, sigma 8.20, k 0.0787), values a
 * generalized Pareto one (sigma 214.5, k 0.348). That paper says
 * nothing of:
 *   - lifetimes: the cache holds MIB (128) of keys and values, then the oldest entries go;
 *     an entry that was used meanwhile, every fourth, stays for one more turn, and one of 256
 *     for ever, as a server's sessions and configuration do; in a longer run one of more, so
 *     that at its end they take a sixteenth of the cache. Any thread frees what another
 *     allocated;
 *   - drift: values become twice as large and half as large in turns, twelve times: what is
 *     freed does not fit what is allocated next;
 *   - a night: in the last third of the run the cache holds half as much.
 *
 * Prints a line of JSON: the resident memory and the payload (bytes asked for that are not yet
 * freed) over time, the CPU time, and the file that malloc came from. bench/run preloads one
 * allocator after the other.
 */
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>

#include "die.h"
#include "malloc_origin.h"
#include "resident.h"
#include "workload.h"

namespace
{

using Clock = std::chrono::steady_clock;

constexpr double kKeyMu = 30.7984, kKeySigma = 8.20449, kKeyShape = 0.078688;
constexpr double kValueSigma = 214.476, kValueShape = 0.348238;
constexpr uint32_t kLeast = 16, kMost = 1 << 20;
/* Requests of a thread in a millisecond, and entries that one puts. */
constexpr unsigned kRequests = 40, kPuts = 2;
/* Buffers of a request: at most so many, of kSmallest bytes doubled up to so many times. */
constexpr uint32_t kBuffers = 12, kSmallest = 32, kDoublings = 10;
/* Of so many entries one is used while it waits, and one stays; of more, where a longer run
 * would let those that stay take more than a part of the cache. */
constexpr uint32_t kUsed = 4, kStays = 256;
constexpr double kStayingPart = 1.0 / 16, kEntryBytes = 400; /* on average */
constexpr unsigned kPhases = 12;
constexpr double kDrift = 2, kNight = 2.0 / 3, kAtNight = 0.5;
constexpr unsigned kLooks = 300;
constexpr double kMebi = 1 << 20;

struct Entry {
	Entry *next;
	Object key, value;
	bool used, stays;
};

double uniform(Random &random)
{
	return (random.bits() + 0.5) / 0x1p32;
}

uint32_t bounded(double bytes)
{
	return static_cast<uint32_t>(std::fmin(std::fmax(bytes, kLeast), kMost));
}

uint32_t key_size(Random &random)
{
	const double x = std::pow(-std::log(uniform(random)), -kKeyShape);

	return bounded(kKeyMu + kKeySigma * (x - 1) / kKeyShape);
}

uint32_t value_size(Random &random, double drift)
{
	const double x = std::pow(uniform(random), -kValueShape);

	return bounded(drift * kValueSigma * (x - 1) / kValueShape);
}

Object filled(uint32_t bytes)
{
	const Object object = make_object(bytes);

	memset(object + sizeof(uint32_t), 1, bytes - sizeof(uint32_t) - 1);
	return object;
}

/* What the work is like at one time. */
struct Work {
	double drift;	/* values are so many times as large */
	long room;	/* bytes that the cache may hold */
	uint32_t stays; /* one of so many entries stays for ever */
};

Entry *make_entry(Random &random, const Work &work)
{
	auto *entry = static_cast<Entry *>(malloc(sizeof(Entry)));

	if (entry == nullptr)
		die("malloc returned NULL");
	*entry = { nullptr, filled(key_size(random)), filled(value_size(random, work.drift)),
		   random.between(1, kUsed) == 1, random.between(1, work.stays) == 1 };
	return entry;
}

long bytes_of(const Entry *entry)
{
	return static_cast<long>(sizeof(Entry) + check_object(entry->key) +
				 check_object(entry->value));
}

/* Entries in the order of their last use. Synchronization: mutex_ for all, bytes_ is atomic. */
class Cache
{
      public:
	long bytes() const
	{
		return bytes_.load(std::memory_order_relaxed);
	}

	/* Puts an entry; frees what is too much then, without the lock. */
	void put(Entry *entry, long room)
	{
		Entry *victims;

		bytes_ += bytes_of(entry);
		{
			const std::lock_guard<std::mutex> hold(mutex_);

			append(entry);
			victims = take_oldest(room);
		}
		while (victims != nullptr) {
			Entry *next = victims->next;

			drop_object(victims->key);
			drop_object(victims->value);
			free(victims);
			victims = next;
		}
	}

      private:
	/* One put looks at so many entries at most. */
	static constexpr unsigned kTries = 64;

	void append(Entry *entry)
	{
		entry->next = nullptr;
		*end_ = entry;
		end_ = &entry->next;
	}

	/* A list of entries that leave the cache. */
	Entry *take_oldest(long room)
	{
		Entry *victims = nullptr;

		for (unsigned i = 0; i < kTries && bytes() > room; i++) {
			Entry *oldest = oldest_;

			if (oldest->next == nullptr)
				break;
			oldest_ = oldest->next;
			if (oldest->stays || std::exchange(oldest->used, false)) {
				append(oldest);
				continue;
			}
			bytes_ -= bytes_of(oldest);
			oldest->next = victims;
			victims = oldest;
		}
		return victims;
	}

	std::mutex mutex_;
	Entry *oldest_ = nullptr, **end_ = &oldest_;
	std::atomic<long> bytes_{ 0 };
};

/* A request's own buffers live while it puts its entries. */
void handle(Cache &cache, Random &random, const Work &work)
{
	Object buffers[kBuffers];
	const uint32_t count = random.between(1, kBuffers);

	for (uint32_t i = 0; i < count; i++)
		buffers[i] = make_object(random.mostly_small(kSmallest, kDoublings));
	for (unsigned i = 0; i < kPuts; i++)
		cache.put(make_entry(random, work), work.room);
	for (uint32_t i = 0; i < count; i++)
		drop_object(buffers[i]);
}

/* The sizes and the room of the work change with @time, which goes from 0 to 1. */
double drift_at(double time)
{
	return static_cast<unsigned>(time * kPhases) % 2 == 0 ? 1 / kDrift : kDrift;
}

long room_at(double time, double mib)
{
	return static_cast<long>(mib * kMebi * (time < kNight ? 1 : kAtNight));
}

unsigned cpus()
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		die("sched_getaffinity failed");
	return static_cast<unsigned>(CPU_COUNT(&allowed));
}

uint32_t stays_of(double seconds, double mib)
{
	const double entries = seconds * 1000 * cpus() * kRequests * kPuts;

	return static_cast<uint32_t>(
		std::fmax(kStays, entries * kEntryBytes / (kStayingPart * mib * kMebi)));
}

/* The first thread reads these numbers after each part of its work, late or not. */
struct Looks {
	std::vector<long> resident, payload;

	void add(const Cache &cache)
	{
		resident.push_back(resident_kib());
		payload.push_back(cache.bytes() / 1024);
	}
};

/*
 * Requests at their times, as many for every allocator: a thread that is late catches up,
 * until all are handled.
 */
void serve(Cache &cache, unsigned thread, Clock::time_point begin, double seconds, double mib,
	   Looks *looks)
{
	const auto ticks = static_cast<uint64_t>(seconds * 1000);
	const uint32_t stays = stays_of(seconds, mib);
	Random random(thread);

	for (uint64_t tick = 0; tick < ticks; tick++) {
		const double time = static_cast<double>(tick) / static_cast<double>(ticks);

		std::this_thread::sleep_until(begin + std::chrono::milliseconds(tick));
		for (unsigned i = 0; i < kRequests; i++)
			handle(cache, random, { drift_at(time), room_at(time, mib), stays });
		if (looks != nullptr && (tick + 1) * kLooks / ticks > tick * kLooks / ticks)
			looks->add(cache);
	}
}

double cpu_seconds()
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void print(const char *name, const std::vector<long> &numbers)
{
	printf("\"%s\": [", name);
	for (size_t k = 0; k < numbers.size(); k++)
		printf("%s%ld", k > 0 ? ", " : "", numbers[k]);
	printf("]");
}

int measure(double seconds, double mib)
{
	const auto begin = Clock::now();
	const unsigned count = cpus();
	Cache cache;
	std::vector<std::thread> threads;
	Looks looks;

	looks.resident.reserve(kLooks);
	looks.payload.reserve(kLooks);
	for (unsigned i = 0; i < count; i++)
		threads.emplace_back([&, i] {
			serve(cache, i, begin, seconds, mib, i == 0 ? &looks : nullptr);
		});
	for (auto &thread : threads)
		thread.join();

	printf("{\"seconds\": %g, \"cpu_seconds\": %.3f, \"late_seconds\": %.3f, ", seconds,
	       cpu_seconds(),
	       std::chrono::duration<double>(Clock::now() - begin).count() - seconds);
	print("resident_kib", looks.resident);
	printf(", ");
	print("payload_kib", looks.payload);
	printf(", \"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 || argc == 3) {
		const double seconds = atof(argv[1]), mib = argc == 3 ? atof(argv[2]) : 128;

		if (seconds > 0 && mib > 0)
			return measure(seconds, mib);
	}
	fprintf(stderr, "usage: %s SECONDS [MIB]\n", argv[0]);
	return 2;
}
