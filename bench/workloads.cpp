/* SPDX-License-Identifier: MIT */
/*
 * workloads - patterns that are hard on allocators.
 *
 * usage: workloads NAME THREADS [SCALE]
 *        workloads --list
 *
 * Each pattern does a fixed amount of work, whatever the number of threads, and
 * prints one line of JSON: wall-clock and CPU seconds, the peak resident size of
 * the process, and the file that malloc came from. SCALE multiplies the work.
 * The list has a line for each pattern: its name, and the numbers of threads it is
 * meant for, the first of which is the least. bench/run preloads one allocator after
 * the other.
 *
 * Every object carries marks in its first and last bytes which are checked
 * before it is freed: an allocator that hands out overlapping memory does not
 * get a time, it gets an abort.
 */
#include <sys/resource.h>

#include <chrono>

#include "malloc_origin.h"
#include "workload.h"

namespace
{

constexpr unsigned kMostCounts = 4;

struct Workload {
	const char *name;
	void (*run)(unsigned threads, double scale);
	unsigned threads[kMostCounts]; /* ascending, then zeros */
};

constexpr Workload kWorkloads[] = {
	{ "alloc_test", alloc_test, { 1, 2 } },
	{ "glibc_simple", glibc_simple, { 1 } },
	{ "glibc_thread", glibc_thread, { 1, 2, 64, 512 } },
	{ "sh6", sh6, { 1 } },
	{ "sh8", sh8, { 2, 64 } },
	{ "cache_scratch", cache_scratch, { 1, 2 } },
	{ "cache_thrash", cache_thrash, { 1, 2 } },
	{ "malloc_large", malloc_large, { 1, 2 } },
	{ "mstress", mstress, { 1, 2, 64, 512 } },
	{ "rptest", rptest, { 1, 2, 64, 512 } },
	{ "producer_consumer", producer_consumer, { 2, 64 } },
	{ "xmalloc", xmalloc, { 2, 64, 512 } },
	{ "larson", larson, { 1, 2, 64, 512 } },
	{ "thread_churn", thread_churn, { 2, 64, 512 } },
	/* bench/run chooses from the list, which leaves this one out. */
	{ "larson_many", larson_many, {} },
};

double cpu_seconds()
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void list(const Workload &workload)
{
	if (workload.threads[0] == 0)
		return;
	fputs(workload.name, stdout);
	for (unsigned threads : workload.threads) {
		if (threads != 0)
			printf(" %u", threads);
	}
	puts("");
}

int measure(const Workload &workload, unsigned threads, double scale)
{
	const auto start = std::chrono::steady_clock::now();

	workload.run(threads, scale);

	const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

	printf("{\"workload\": \"%s\", \"threads\": %u, \"seconds\": %.6f, ", workload.name,
	       threads, elapsed.count());
	printf("\"cpu_seconds\": %.6f, \"peak_rss_kib\": %ld, ", cpu_seconds(),
	       status_kib("VmHWM"));
	printf("\"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (const Workload &workload : kWorkloads)
			list(workload);
		return 0;
	}
	if (argc == 3 || argc == 4) {
		const int threads = atoi(argv[2]);
		const double scale = argc == 4 ? atof(argv[3]) : 1;

		const Workload *workload = find_scenario(kWorkloads, argv[1]);

		if (workload != nullptr && scale > 0 && threads > 0 &&
		    threads >= static_cast<int>(workload->threads[0]))
			return measure(*workload, static_cast<unsigned>(threads), scale);
	}
	fprintf(stderr,
		"usage: %s NAME THREADS [SCALE]   (SCALE > 0, THREADS as in the list or more)\n"
		"       %s --list\n",
		argv[0], argv[0]);
	return 2;
}
