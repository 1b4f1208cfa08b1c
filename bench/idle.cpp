/* SPDX-License-Identifier: MIT */
/*
 * idle - how much memory an allocator gives back to the system.
 *
 * usage: idle SCENARIO SECONDS [MIB]
 *        idle --list
 *
 * Allocates MIB (256) in objects, frees them, stands still for SECONDS, and asks the
 * allocator to give back what it can. Prints one line of JSON: the resident memory
 * before all that, at the peak, after freeing, while and after standing still, and after
 * asking; which function was asked, or "" where the allocator has none; and the file that
 * malloc came from. bench/run preloads one allocator after the other.
 */
#include <pthread.h>

#include <chrono>

#include "malloc_origin.h"
#include "resident.h"
#include "trimmer.h"
#include "workload.h"

namespace
{

struct Scenario {
	const char *name;
	unsigned threads;
	uint32_t smallest, largest;
	size_t stays; /* one object of so many is not freed; 0: all are */
	bool passed;  /* another thread frees than allocated */
};

constexpr Scenario kScenarios[] = {
	{ "small", 1, 16, 1024, 0, false },
	{ "pages", 1, 4096, 65536, 0, false },
	{ "large", 1, 262144, 2097152, 0, false },
	{ "one of 64 stays", 1, 16, 1024, 64, false },
	{ "64 threads", 64, 16, 1024, 0, false },
	{ "64 threads, passed on", 64, 16, 1024, 0, true },
};

constexpr double kMebi = 1 << 20;
/* How often the memory is looked at while the program stands still. */
constexpr unsigned kLooks = 40;

/* What the main thread reads off between the steps that all threads take together. */
struct Readings {
	long start, peak, freed, idle, trimmed;
	const char *trimmed_by;
	std::vector<long> while_idle; /* at equal distances, the first when all is freed */
};

class Steps
{
      public:
	explicit Steps(unsigned threads)
	{
		pthread_barrier_init(&barrier_, nullptr, threads);
	}
	~Steps()
	{
		pthread_barrier_destroy(&barrier_);
	}

	/* Waits for all threads, lets one of them read, waits again. */
	template <typename Read> void pause(unsigned thread, Read read)
	{
		pthread_barrier_wait(&barrier_);
		if (thread == 0)
			read();
		pthread_barrier_wait(&barrier_);
	}

      private:
	pthread_barrier_t barrier_;
};

void release(std::vector<Object> &objects, size_t stays)
{
	for (size_t n = 0; n < objects.size(); n++) {
		if (stays == 0 || n % stays != 0) {
			drop_object(objects[n]);
			objects[n] = nullptr;
		}
	}
}

/*
 * Sleeps, and looks at the resident memory now and then; @first is what it is before. Allocates
 * nothing meanwhile: some allocators give memory back only in a malloc or a free.
 */
std::vector<long> stand_still(long first, double seconds)
{
	std::vector<long> found(1 + kLooks, first);

	for (unsigned k = 1; k <= kLooks; k++) {
		std::this_thread::sleep_for(std::chrono::duration<double>(seconds / kLooks));
		found[k] = resident_kib();
	}
	return found;
}

/* A thread that only waits at the barrier stands as still as the one that sleeps. */
Readings run(const Scenario &scenario, double seconds, double mib)
{
	const double mean = 0.5 * (scenario.smallest + scenario.largest);
	const size_t count = share(kMebi, mib, mean * scenario.threads);
	std::vector<std::vector<Object>> objects(scenario.threads, std::vector<Object>(count));
	Steps steps(scenario.threads);
	Readings readings{};

	run_threads(scenario.threads, [&](unsigned i) {
		Random random(i);
		const unsigned freed = scenario.passed ? (i + 1) % scenario.threads : i;

		steps.pause(i, [&] { readings.start = status_kib("VmRSS"); });
		for (Object &object : objects[i])
			object = make_object(
				random.between(scenario.smallest, scenario.largest));
		for (Object object : objects[i])
			memset(object + sizeof(uint32_t), 1, check_object(object) - 5);
		steps.pause(i, [&] { readings.peak = status_kib("VmRSS"); });
		release(objects[freed], scenario.stays);
		steps.pause(i, [&] {
			readings.freed = status_kib("VmRSS");
			readings.while_idle = stand_still(readings.freed, seconds);
			readings.idle = readings.while_idle.back();
			readings.trimmed_by = trim();
			readings.trimmed = status_kib("VmRSS");
		});
		drop_all(objects[freed]);
	});
	return readings;
}

int measure(const Scenario &scenario, double seconds, double mib)
{
	const Readings readings = run(scenario, seconds, mib);

	printf("{\"scenario\": \"%s\", \"start_kib\": %ld, \"peak_kib\": %ld, ", scenario.name,
	       readings.start, readings.peak);
	printf("\"freed_kib\": %ld, \"idle_kib\": %ld, \"trimmed_kib\": %ld, ", readings.freed,
	       readings.idle, readings.trimmed);
	printf("\"seconds\": %g, \"while_idle_kib\": [", seconds);
	for (size_t k = 0; k < readings.while_idle.size(); k++)
		printf("%s%ld", k > 0 ? ", " : "", readings.while_idle[k]);
	printf("], \"trimmed_by\": \"%s\", \"malloc_origin\": \"%s\"}\n", readings.trimmed_by,
	       malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list_scenarios(kScenarios);
		return 0;
	}
	if (argc == 3 || argc == 4) {
		const double seconds = atof(argv[2]), mib = argc == 4 ? atof(argv[3]) : 256;

		const Scenario *scenario = find_scenario(kScenarios, argv[1]);

		if (scenario != nullptr && seconds >= 0 && mib > 0)
			return measure(*scenario, seconds, mib);
	}
	fprintf(stderr, "usage: %s SCENARIO SECONDS [MIB]\n       %s --list\n", argv[0],
		argv[0]);
	return 2;
}
