/* SPDX-License-Identifier: MIT */
/*
 * latency - how long single mallocs and frees take, the slow ones above all.
 *
 * usage: latency SCENARIO SECONDS
 *        latency --list
 *
 * Every thread replaces random ones of its objects, and passes an eighth of them on to the
 * others. Each malloc and each free is timed by itself, and so is a pair of readings with
 * nothing between them: that is what timing costs, and how often the machine interrupts a
 * thread. The time until memory is touched is not part of it.
 *
 * Prints one line of JSON: histograms (histogram.h), in nanoseconds, and the file that malloc
 * came from. The histograms of "running" leave out those operations of 5 us and more during
 * which the kernel took the CPU from the thread: a time slice is some milliseconds, whatever
 * the allocator. bench/run preloads one allocator after the other.
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "die.h"
#include "histogram.h"
#include "malloc_origin.h"
#include "resident.h"
#include "ticks.h"
#include "trimmer.h"
#include "workload.h"

namespace
{

enum class Beside { kNothing, kTrim, kFork };

struct Scenario {
	const char *name;
	unsigned threads; /* to a CPU */
	bool waves;	  /* each thread frees all it has now and then, and stands still */
	Beside beside;	  /* what one more thread does */
};

constexpr Scenario kScenarios[] = {
	{ "quiet", 1, false, Beside::kNothing }, { "preempted", 4, false, Beside::kNothing },
	{ "purged", 1, true, Beside::kNothing }, { "trimmed", 1, false, Beside::kTrim },
	{ "forks", 1, false, Beside::kFork },
};

/* Objects of 16 bytes to 64 KiB, mostly small: about 6 MiB to a thread. */
constexpr uint32_t kObjects = 32768, kSmallest = 16, kDoublings = 12;
/* One object of so many is passed on, through so many places. */
constexpr uint32_t kPassed = 8, kPlaces = 1024;
/* Operations of so many ns are looked into. */
constexpr uint64_t kLong = 5000;
/* The count of interruptions is at most so many operations old. */
constexpr uint32_t kLook = 512;
/* How many objects a wave replaces before it frees all, and how long it stands still then. */
constexpr uint32_t kWave = 16 * kObjects;
constexpr std::chrono::milliseconds kBetweenWaves{ 30 };
/* How often memory is trimmed, and the process is forked. */
constexpr std::chrono::milliseconds kBetweenTrims{ 10 }, kBetweenForks{ 20 };

enum Operation { kMalloc, kFree, kNothing, kOperations };
constexpr const char *kNames[] = { "malloc", "free", "nothing" };

/* Synchronization: of one thread until that has ended. */
struct Figures {
	Histogram all[kOperations], running[kOperations];

	void add(const Figures &other)
	{
		for (int op = 0; op < kOperations; op++) {
			all[op].add(other.all[op]);
			running[op].add(other.running[op]);
		}
	}
};

/* Synchronization: atomic; an object belongs to the thread that exchanged it. */
std::atomic<Object> places[kPlaces];

/* How often the kernel has taken the CPU from the calling thread. */
long interruptions()
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

class Worker
{
      public:
	Worker(const Scenario &scenario, const TickRate &rate, unsigned seed, Figures &figures)
	    : scenario_(scenario), rate_(rate), random_(seed), figures_(figures)
	{
	}

	void run(const std::atomic<bool> &stop)
	{
		std::vector<Object> objects(kObjects);

		/* The first objects, and the pages under all of this, are not timed. */
		for (Object &object : objects)
			object = make_object(size());
		for (uint32_t n = 1; !stop.load(std::memory_order_relaxed); n++) {
			if (n % kLook == 0)
				interrupted_ = interruptions();
			replace(objects[random_.between(0, kObjects - 1)]);
			time(kNothing, [] {});
			if (scenario_.waves && n % kWave == 0)
				free_all(objects);
		}
		drop_all(objects);
	}

      private:
	uint32_t size()
	{
		return random_.mostly_small(kSmallest, kDoublings);
	}

	template <typename Body> void time(Operation op, Body body)
	{
		const uint64_t begin = ticks_begin();
		body();
		const uint64_t took = rate_.ns(ticks_end() - begin);

		figures_.all[op].record(took);
		if (took >= kLong) {
			const long now = interruptions();

			if (now != interrupted_) {
				interrupted_ = now;
				return;
			}
		}
		figures_.running[op].record(took);
	}

	void timed_free(Object object)
	{
		if (object == nullptr)
			return;
		check_object(object);
		memset(object, 0, sizeof(uint32_t));
		time(kFree, [&] { free(object); });
	}

	void replace(Object &slot)
	{
		const uint32_t bytes = size();
		void *fresh = nullptr;

		timed_free(slot);
		time(kMalloc, [&] { fresh = malloc(bytes); });
		if (fresh == nullptr)
			die("malloc returned NULL");
		slot = static_cast<Object>(fresh);
		mark_object(slot, bytes);
		if (random_.between(1, kPassed) == 1)
			slot = places[random_.between(0, kPlaces - 1)].exchange(slot);
	}

	void free_all(std::vector<Object> &objects)
	{
		for (Object &object : objects)
			timed_free(object);
		std::this_thread::sleep_for(kBetweenWaves);
		for (Object &object : objects)
			object = make_object(size());
		interrupted_ = interruptions();
	}

	const Scenario &scenario_;
	const TickRate &rate_;
	Random random_;
	Figures &figures_;
	long interrupted_ = 0;
};

/* Seconds after which a child is stuck: another thread had a lock of the allocator, which does
 * not look after forks. */
constexpr unsigned kStuck = 2;

void fork_once()
{
	const pid_t child = fork();
	int status = 0;

	if (child < 0)
		die("fork failed");
	if (child == 0) {
		alarm(kStuck);
		free(malloc(100));
		_exit(0);
	}
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
		fprintf(stderr, "latency: malloc in a child of fork: %s\n",
			strsignal(WTERMSIG(status)));
}

/* What trims gave back, and how long they took: an allocator's trim may do all or nothing. */
struct Trims {
	const char *by = ""; /* the function that was asked */
	long count = 0;
	double us = 0;		 /* all together */
	long given_back_kib = 0; /* all together, while the threads went on */
	long resident_kib = 0;	 /* the sum of what was resident after each */

	void add()
	{
		const long before = ::resident_kib();
		const auto begin = std::chrono::steady_clock::now();

		by = trim();
		us += std::chrono::duration<double, std::micro>(
			      std::chrono::steady_clock::now() - begin)
			      .count();
		count++;
		const long after = ::resident_kib();

		given_back_kib += before - after;
		resident_kib += after;
	}

	double mean(double sum) const
	{
		return count > 0 ? sum / static_cast<double>(count) : 0;
	}

	void print() const
	{
		printf("\"trimmed_by\": \"%s\", \"trims\": {\"count\": %ld, \"us\": %.1f, "
		       "\"given_back_kib\": %.1f, \"resident_kib\": %.1f}, ",
		       by, count, mean(us), mean(static_cast<double>(given_back_kib)),
		       mean(static_cast<double>(resident_kib)));
	}
};

/* Disturbs the threads until the time is over. */
Trims beside(const Scenario &scenario, std::chrono::duration<double> length)
{
	const auto end = std::chrono::steady_clock::now() + length;
	Trims trims;

	while (std::chrono::steady_clock::now() < end) {
		switch (scenario.beside) {
		case Beside::kTrim:
			trims.add();
			std::this_thread::sleep_for(kBetweenTrims);
			break;
		case Beside::kFork:
			fork_once();
			std::this_thread::sleep_for(kBetweenForks);
			break;
		case Beside::kNothing:
			std::this_thread::sleep_until(end);
		}
	}
	return trims;
}

unsigned cpus()
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		die("sched_getaffinity failed");
	return static_cast<unsigned>(CPU_COUNT(&allowed));
}

void print(const char *name, const Histogram (&histograms)[kOperations])
{
	printf("\"%s\": {", name);
	for (int op = 0; op < kOperations; op++) {
		printf("%s\"%s\": ", op > 0 ? ", " : "", kNames[op]);
		histograms[op].print_json();
	}
	printf("}, ");
}

int measure(const Scenario &scenario, double seconds)
{
	const TickRate rate;
	const unsigned threads = scenario.threads * cpus();
	std::vector<std::unique_ptr<Figures>> figures;
	std::atomic<bool> stop{ false };
	std::vector<std::thread> workers;

	for (unsigned i = 0; i < threads; i++)
		figures.push_back(std::make_unique<Figures>());
	for (unsigned i = 0; i < threads; i++)
		workers.emplace_back(
			[&, i] { Worker(scenario, rate, i, *figures[i]).run(stop); });
	const Trims trims = beside(scenario, std::chrono::duration<double>(seconds));
	stop = true;
	for (auto &worker : workers)
		worker.join();
	for (auto &place : places)
		drop_if_any(place.exchange(nullptr));
	for (unsigned i = 1; i < threads; i++)
		figures[0]->add(*figures[i]);

	printf("{\"scenario\": \"%s\", \"threads\": %u, \"seconds\": %g, ", scenario.name,
	       threads, seconds);
	print("all", figures[0]->all);
	print("running", figures[0]->running);
	trims.print();
	printf("\"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list_scenarios(kScenarios);
		return 0;
	}
	if (argc == 3) {
		const Scenario *scenario = find_scenario(kScenarios, argv[1]);
		const double seconds = atof(argv[2]);

		if (scenario != nullptr && seconds > 0)
			return measure(*scenario, seconds);
	}
	fprintf(stderr, "usage: %s SCENARIO SECONDS\n       %s --list\n", argv[0], argv[0]);
	return 2;
}
