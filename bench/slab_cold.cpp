/* SPDX-License-Identifier: MIT */
/*
 * slab cold - taking objects when neither they nor what describes them is in a cache.
 *
 * Of many objects most are freed, and what the CPU's array holds is taken again, so that
 * the free ones are in slabs. Then 96 MiB of other memory are written (--evict: or more),
 * which leaves nothing of them in the CPU's own caches, nor in a last-level cache that is
 * not larger, and the time to take kTaken objects is measured, without a look at any.
 *
 * Why this shows that a refill touches no object: an allocator that links free objects
 * through their own first word must read a line of each object it hands out before it
 * knows the next one, a miss per object, one after the other, as far as eviction went.
 * The model `linked` does that and nothing else. An allocator whose free objects are bits
 * outside of them misses for what describes a slab, and shares that among the objects it
 * gets there; the order of frees only decides which slab is next. So: linked, freed in
 * random order, costs a whole miss per object; alloc_bulk must cost a fraction of one.
 *
 * Time only suggests it; the column "objects" proves it. There a process takes the same
 * objects with the pages they lie in inaccessible: it gets through, or it dies at the
 * first access. The model dies, which shows that the test can fail.
 *
 * The column "write" is the first write to each afterwards. That is where the misses went,
 * but these do not depend on each other and the processor overlaps them.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "slab_bench.h"

namespace
{

constexpr size_t kObjects = 32768;
constexpr size_t kKept = 8;	  /* each eighth object stays in use, and so do slabs */
constexpr size_t kInArray = 4096; /* more than a CPU's array holds */
constexpr size_t kTaken = 1024;
constexpr size_t kSizes[] = { 64, 256, 1024 };

size_t evicted_mib = 96;

/* Here and not in a heap: pages of the heap become inaccessible. */
void *all[kObjects], *spare[kInArray], *taken[kTaken];

struct heap {
	virtual ~heap() = default;
	virtual void take(void **p, size_t n) = 0;
	virtual void give(void **p, size_t n) = 0;
};

struct bulk_heap : heap {
	explicit bulk_heap(size_t size) : objects(size)
	{
	}
	void take(void **p, size_t n) override
	{
		if (!kmem_cache_alloc_bulk(objects.s, GFP_KERNEL, n, p))
			die("no objects");
	}
	void give(void **p, size_t n) override
	{
		kmem_cache_free_bulk(objects.s, n, p);
	}

	cache objects;
};

struct single_heap : heap {
	explicit single_heap(size_t size) : objects(size)
	{
	}
	void take(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++)
			p[i] = kmem_cache_alloc(objects.s, GFP_KERNEL);
	}
	void give(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++)
			kmem_cache_free(objects.s, p[i]);
	}

	cache objects;
};

/* The model: the first word of a free object points to the next one. */
struct linked_heap : heap {
	explicit linked_heap(size_t size)
	    : bytes(kObjects * size),
	      memory(static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
	{
		if (memory == MAP_FAILED)
			die("no memory");
		for (size_t i = kObjects; i-- > 0;) {
			void *object = memory + i * size;

			linked_heap::give(&object, 1);
		}
	}
	~linked_heap() override
	{
		munmap(memory, bytes);
	}
	linked_heap(const linked_heap &) = delete;
	linked_heap &operator=(const linked_heap &) = delete;

	void take(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++) {
			p[i] = first;
			first = *static_cast<void **>(first);
		}
	}
	void give(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++) {
			*static_cast<void **>(p[i]) = first;
			first = p[i];
		}
	}

	size_t bytes;
	char *memory;
	void *first = nullptr;
};

struct malloc_heap : heap {
	explicit malloc_heap(size_t bytes) : size(bytes)
	{
	}
	void take(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++)
			p[i] = malloc(size);
	}
	void give(void **p, size_t n) override
	{
		for (size_t i = 0; i < n; i++)
			free(p[i]);
	}

	size_t size;
};

template <typename kind> std::unique_ptr<heap> make(size_t size)
{
	return std::make_unique<kind>(size);
}

struct source {
	const char *name;
	std::unique_ptr<heap> (*make)(size_t size);
};

constexpr source kSources[] = {
	{ "alloc_bulk", make<bulk_heap> },
	{ "alloc", make<single_heap> },
	{ "linked", make<linked_heap> },
	{ "malloc", make<malloc_heap> },
};

void write_first(void **p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*static_cast<volatile char *>(p[i]) = 1;
}

/* All but each eighth object go back, in this order; all[] begins with those kept. */
void scatter(heap &from, bool shuffled)
{
	static std::mt19937 random(1);
	size_t kept = 0;

	from.take(all, kObjects);
	write_first(all, kObjects);
	for (size_t i = 0; i < kObjects; i += kKept)
		std::swap(all[kept++], all[i]);
	/* By address, which the swaps have disturbed. */
	std::sort(all + kept, all + kObjects);
	if (shuffled)
		std::shuffle(all + kept, all + kObjects, random);
	from.give(all + kept, kObjects - kept);
	from.take(spare, kInArray);
}

void gather(heap &from)
{
	from.give(taken, kTaken);
	from.give(spare, kInArray);
	from.give(all, kObjects / kKept);
}

void evict_caches()
{
	static std::vector<uint64_t> other((evicted_mib << 20) / sizeof(uint64_t));

	for (size_t i = 0; i < other.size(); i += 64 / sizeof(uint64_t))
		*static_cast<volatile uint64_t *>(&other[i]) = i;
}

struct figures {
	double take, write; /* ns per object */
};

figures measure(heap &from, bool shuffled)
{
	using clock = std::chrono::steady_clock;
	using ns = std::chrono::duration<double, std::nano>;

	scatter(from, shuffled);
	evict_caches();

	const auto start = clock::now();

	from.take(taken, kTaken);

	const auto between = clock::now();

	write_first(taken, kTaken);

	const auto end = clock::now();

	gather(from);
	return { ns(between - start).count() / kTaken, ns(end - between).count() / kTaken };
}

double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

void forbid_objects(size_t size)
{
	std::set<uintptr_t> pages;

	for (void *object : all) {
		const auto address = reinterpret_cast<uintptr_t>(object);

		for (uintptr_t page = address / kPage; page <= (address + size - 1) / kPage;
		     page++)
			pages.insert(page * kPage);
	}
	for (uintptr_t page : pages)
		mprotect(reinterpret_cast<void *>(page), kPage, PROT_NONE);
}

/* Whether taking objects accesses them, found in a process that dies of it. */
bool accesses_objects(const source &s, size_t size)
{
	const pid_t child = fork();
	int status;

	if (child < 0)
		die("no process");
	if (child == 0) {
		const rlimit no_core = { 0, 0 };
		heap *from = s.make(size).release();

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL);
		scatter(*from, true);
		forbid_objects(size);
		from->take(taken, kTaken);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		die("no result of a process");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		return true;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("a process failed");
	return false;
}

struct row {
	size_t size;
	const char *source;
	double take[2], write[2]; /* by order: of addresses, shuffled */
	bool accesses;
};

row measure_row(const source &s, size_t size, unsigned int times)
{
	row found = { size, s.name, {}, {}, accesses_objects(s, size) };

	for (bool shuffled : { false, true }) {
		const auto from = s.make(size);
		std::vector<double> takes, writes;

		measure(*from, shuffled);
		for (unsigned int i = 0; i < times; i++) {
			const figures now = measure(*from, shuffled);

			takes.push_back(now.take);
			writes.push_back(now.write);
		}
		found.take[shuffled] = median(takes);
		found.write[shuffled] = median(writes);
	}
	return found;
}

void print_table(const std::vector<row> &rows)
{
	printf("%zu objects out of cold slabs, ns per object; freed before in order / "
	       "shuffled\n",
	       kTaken);
	if (sysconf(_SC_LEVEL3_CACHE_SIZE) > static_cast<long>(evicted_mib << 20))
		printf("the last-level cache holds %ld MiB, more than the %zu that are "
		       "written: it "
		       "may have some of it\n",
		       sysconf(_SC_LEVEL3_CACHE_SIZE) >> 20, evicted_mib);
	printf("%5s  %-10s  %15s  %15s  %s\n", "size", "source", "take", "write", "objects");
	for (const row &r : rows)
		printf("%5zu  %-10s  %7.1f/%7.1f  %7.1f/%7.1f  %s\n", r.size, r.source,
		       r.take[0], r.take[1], r.write[0], r.write[1],
		       r.accesses ? "accessed" : "untouched");
}

void print_json(const std::vector<row> &rows)
{
	const char *separator = "[";

	for (const row &r : rows) {
		printf("%s{\"size\": %zu, \"source\": \"%s\", \"accesses\": %s,\n", separator,
		       r.size, r.source, r.accesses ? "true" : "false");
		printf("  \"take\": [%.3f, %.3f], \"write\": [%.3f, %.3f]}", r.take[0],
		       r.take[1], r.write[0], r.write[1]);
		separator = ",\n ";
	}
	puts("]");
}

} // namespace

void add_cold(CLI::App &app)
{
	static unsigned int times = 15;
	static bool json = false;
	auto *cold = app.add_subcommand("cold", "refill out of the processor's caches");

	cold->add_option("--times", times, "repetitions, of which the median is shown")
		->check(CLI::PositiveNumber)
		->capture_default_str();
	cold->add_option("--evict", evicted_mib, "MiB written to empty the processor's caches")
		->check(CLI::Range(1, 65536))
		->capture_default_str();
	cold->add_flag("--json", json, "print JSON");
	cold->callback([] {
		std::vector<row> rows;

		for (size_t size : kSizes) {
			for (const source &s : kSources)
				rows.push_back(measure_row(s, size, times));
		}
		json ? print_json(rows) : print_table(rows);
	});
}
