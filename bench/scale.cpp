/* SPDX-License-Identifier: MIT */
/*
 * scale - what the library costs on machines with many CPUs and nodes, on any machine.
 *
 * usage: scale CPUS [STRIDE]
 *
 * The library is told that the machine has CPUS CPUs with the ids 0, STRIDE, 2 * STRIDE ... and
 * 64 GiB of memory. UKMEM_CONF=numa_fake:N pretends nodes. bench/README.md says what of this is
 * pretended and what is not.
 *
 * The process has one thread. To be on CPU c it writes c where the kernel writes the number of
 * the thread's CPU (struct rseq), and looks afterwards whether the kernel has written there
 * meanwhile; then the work is done anew. A section that uses the number of CPU c works on the
 * memory of CPU c, by the same instructions as on a machine that has it. That is safe in a
 * process with one thread: nobody else can be on CPU c, and the kernel aborts the section
 * whenever it writes the number.
 *
 * Prints one line of JSON.
 */
#include <fcntl.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <linux/membarrier.h>

#include <ukmem/kmalloc.h>
#include <ukmem/percpu.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>
#include <ukmem/ukmem.h>

#include "die.h"

extern "C" {
#include "os/os.h"
}

namespace
{

constexpr unsigned kTimes = 15;	     /* medians over so many */
constexpr size_t kBatch = 64;	     /* objects that fit an array */
constexpr size_t kLargeBatch = 1000; /* objects that do not */
constexpr size_t kObject = 64;	     /* bytes */
constexpr size_t kUsed[] = { 16, 24, 48, 64, 96, 128, 200, 256, 512, 1000, 2000 };

unsigned cpu_now; /* the pretended one */
std::string cpu_list;
std::vector<unsigned> cpu_ids;

/* --- the pretended machine --------------------------------------------------------- */

ssize_t read_file(const char *path, char *buf, size_t size)
{
	const std::string name = path;
	std::string text;

	if (name == "/sys/devices/system/cpu/possible" ||
	    name == "/sys/devices/system/cpu/online")
		text = cpu_list;
	else if (name == "/proc/meminfo")
		text = "MemTotal:       67108864 kB\nMemAvailable:   60000000 kB\n";
	else
		return -ENOENT;
	size = std::min(size, text.size());
	memcpy(buf, text.data(), size);
	return static_cast<ssize_t>(size);
}

/* As the kernel, whose masks are no longer than its CPUs need: what the library makes of the
 * length decides whether it has fast paths. */
long affinity(unsigned long *mask, size_t size)
{
	const size_t bytes = (cpu_ids.back() / 64 + 1) * sizeof(*mask);

	if (size < bytes)
		return -EINVAL;
	memset(mask, 0, bytes);
	for (const unsigned id : cpu_ids)
		mask[id / 64] |= 1ul << (id % 64);
	return static_cast<long>(bytes);
}

int get_cpu(unsigned *cpu)
{
	*cpu = cpu_now;
	return 0;
}

/* The kernel refuses to interrupt CPUs that it does not have, so all threads are interrupted.
 */
int membarrier(int cmd, unsigned flags, int)
{
	return os_calls_linux.membarrier(
		cmd, flags & ~static_cast<unsigned>(MEMBARRIER_CMD_FLAG_CPU), 0);
}

void pretend(unsigned cpus, unsigned stride)
{
	for (unsigned i = 0; i < cpus; i++) {
		cpu_ids.push_back(i * stride);
		cpu_list += (i ? "," : "") + std::to_string(i * stride);
	}
	cpu_list += "\n";
	os_calls.read_file = read_file;
	os_calls.affinity = affinity;
	os_calls.getcpu = get_cpu;
	os_calls.membarrier = membarrier;
}

/* The number of this thread's CPU, as sections read it. */
volatile uint32_t *number()
{
	auto *area = static_cast<char *>(__builtin_thread_pointer()) + __rseq_offset;

	return reinterpret_cast<volatile uint32_t *>(area + sizeof(uint32_t));
}

/* Does @work on CPU @id. False: the kernel has put the thread back on its own. */
bool on_cpu(unsigned id, const std::function<void()> &work)
{
	volatile uint32_t *cpu = number();

	cpu_now = id;
	cpu[-1] = id; /* cpu_id_start */
	cpu[0] = id;
	work();
	return cpu[0] == id;
}

/* Does @work on CPU @id until it was there from the beginning to the end. */
void surely_on_cpu(unsigned id, const std::function<void()> &work)
{
	for (unsigned i = 0; !on_cpu(id, work); i++)
		if (i == 10000)
			die("the kernel writes the number of the CPU again and again");
}

/* --- figures ----------------------------------------------------------------------- */

double now(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID)
{
	timespec t{};

	clock_gettime(clock, &t);
	return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

/* Bytes of this process's own memory: a number of kB that @file has behind @key. */
double bytes_of(const char *file, const char *key)
{
	char text[4096];
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	const char *found;

	close(fd);
	text[std::max<ssize_t>(n, 0)] = 0;
	found = strstr(text, key);
	if (!found)
		die("there is no number in /proc");
	return 1024 * strtod(found + strlen(key), nullptr);
}

double resident()
{
	return bytes_of("/proc/self/smaps_rollup", "Anonymous:");
}

double page_tables()
{
	return bytes_of("/proc/self/status", "VmPTE:");
}

double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

/* Median time of @work on CPU @id. */
double time_on(unsigned id, const std::function<void()> &work)
{
	std::vector<double> times;

	for (unsigned i = 0; times.size() < kTimes; i++) {
		double start = 0, end = 0;

		if (on_cpu(id, [&] {
			    start = now();
			    work();
			    end = now();
		    }))
			times.push_back(end - start);
		else if (i == 10000)
			die("the kernel writes the number of the CPU again and again");
	}
	return median(times);
}

double time_anywhere(const std::function<void()> &work)
{
	std::vector<double> times;

	for (unsigned i = 0; i < kTimes; i++) {
		const double start = now();

		work();
		times.push_back(now() - start);
	}
	return median(times);
}

/* Allocates and frees @n objects. */
void batch(size_t n, size_t size)
{
	static void *objects[kBatch];

	for (size_t i = 0; i < n; i++)
		objects[i] = kmalloc(size, GFP_KERNEL);
	for (size_t i = 0; i < n; i++)
		kfree(objects[i]);
}

/* The same, past arrays of 64 objects: all are refilled and flushed. */
void slow_batch(kmem_cache *cache)
{
	static void *objects[kLargeBatch];

	for (void *&object : objects)
		object = kmem_cache_alloc(cache, GFP_KERNEL);
	for (void *object : objects)
		kmem_cache_free(cache, object);
}

/* What a thread does that uses a CPU for a while. */
void use()
{
	for (const size_t size : kUsed)
		for (int round = 0; round < 4; round++)
			batch(kBatch, size);
}

/* Elapsed time: most of it is the kernel's, in both processes. */
double fork_time()
{
	const double start = now(CLOCK_MONOTONIC);
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		on_cpu(0, [] { kfree(kmalloc(kObject, GFP_KERNEL)); });
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		die("fork failed");
	return now(CLOCK_MONOTONIC) - start;
}

void use_all()
{
	for (const unsigned id : cpu_ids)
		surely_on_cpu(id, use);
}

int measure(unsigned cpus, unsigned stride)
{
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	ukmem_percpu_info info;

	pretend(cpus, stride);
	resident();
	const double bytes = resident(), tables = page_tables(), start = now();
	surely_on_cpu(0, [] { kfree(kmalloc(kObject, GFP_KERNEL)); });
	const double start_ns = now() - start, start_bytes = resident() - bytes;
	const double start_tables = page_tables() - tables;

	percpu_mode(&info);
	if (info.mode != UKMEM_PERCPU_RSEQ)
		die("the CPU can be pretended only where restartable sequences work");

	/* The first CPU pays what all share. */
	surely_on_cpu(0, use);
	const double one = resident(), one_tables = page_tables();
	use_all();
	const double others = std::max(1u, cpus - 1);
	const double cpu_bytes = (resident() - one) / others;
	const double cpu_tables = (page_tables() - one_tables) / others;

	const unsigned last = cpu_ids.back();
	const double pair = time_on(last,
				    [] {
					    for (int i = 0; i < 10; i++)
						    batch(kBatch, kObject);
				    }) /
			    (10.0 * kBatch);
	kmem_cache_args args{};
	args.sheaf_capacity = kBatch;
	kmem_cache *cache = kmem_cache_create("scale", kObject, &args, 0);
	if (!cache)
		die("there is no cache");
	surely_on_cpu(last, [&] { slow_batch(cache); });
	const double slow = time_on(last, [&] { slow_batch(cache); }) / kLargeBatch;
	const double stats = time_anywhere([&] { ukmem_stats_print(null, UKMEM_STATS_JSON); });
	std::vector<double> forks, trims;

	for (unsigned i = 0; i < kTimes; i++)
		forks.push_back(fork_time());
	for (unsigned i = 0; i < kTimes; i++) {
		use_all();
		const double begin = now();
		ukmem_trim();
		trims.push_back(now() - begin);
	}
	printf("{\"cpus\": %u, \"cpu_ids\": %u, \"start_bytes\": %.0f, \"start_tables\": %.0f, "
	       "\"start_ns\": %.0f, \"cpu_bytes\": %.0f, \"cpu_tables\": %.0f, "
	       "\"pair_ns\": %.3f, \"slow_ns\": %.3f, \"stats_ns\": %.0f, \"fork_ns\": %.0f, "
	       "\"trim_ns\": %.0f}\n",
	       cpus, info.nr_cpu_ids, start_bytes, start_tables, start_ns, cpu_bytes,
	       cpu_tables, pair, slow, stats, median(forks), median(trims));
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	const int cpus = argc > 1 ? atoi(argv[1]) : 0, stride = argc > 2 ? atoi(argv[2]) : 1;

	if (cpus < 1 || stride < 1 || cpus * stride > OS_MAX_CPUS) {
		fprintf(stderr, "usage: %s CPUS [STRIDE]\n", argv[0]);
		return 2;
	}
	return measure(static_cast<unsigned>(cpus), static_cast<unsigned>(stride));
}
