/* SPDX-License-Identifier: MIT */
/*
 * slab_fuzz: random steps over object caches, beside a model of what is whose.
 *
 *   slab_fuzz --seed N --steps M [--threads T]	one run
 *   slab_fuzz --runs K --steps M [--threads T] [--skip S] [--seconds X]
 *		K runs of different seeds, from UKMEM_TEST_SEED + S on; after X seconds no
 *		other begins
 *
 * A run is a process of its own: its seed chooses tunables, nodes, caches and failures.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "faults.h"
#include "slab_machine.h"

extern "C" {
#include "os/os.h"
#include "page_shim.h"
}

using namespace fuzz;

namespace
{

struct Case {
	uint64_t seed, steps;
	unsigned threads;
};

ssize_t (*read_other_file)(const char *path, char *buf, size_t size);

ssize_t read_online(const char *path, char *buf, size_t size)
{
	static const char zero[] = "0\n";
	unsigned long mask = online_cpus.load();
	std::string list;

	if (strcmp(path, "/sys/devices/system/cpu/online") != 0)
		return read_other_file(path, buf, size);
	for (unsigned cpu = 0; cpu < 64; cpu++)
		if (mask >> cpu & 1)
			list += (list.empty() ? "" : ",") + std::to_string(cpu);
	list = list.empty() ? zero : list + "\n";
	return snprintf(buf, size, "%s", list.c_str());
}

SlabSettings settings_of_seed(uint64_t seed)
{
	Random random(seed * 2 + 1);
	SlabSettings s = {};
	auto add = [&](const char *key, uint64_t value, const char *unit = "") {
		s.conf += "," + std::string(key) + ":" + std::to_string(value) + unit;
	};

	s.nodes = random() % 2 ? 1 : static_cast<unsigned>(2 + random() % 4);
	s.faults = random() % 3 == 0;
	s.roomy = !s.faults && random() % 2;
	s.conf = "thp:never,background_thread:never";
	add("limit", s.roomy ? 1024 : 6 + random() % 20, "m");
	if (s.nodes > 1)
		add("numa_fake", s.nodes);
	if (random() % 2)
		add("slab_max_order", random() % 6);
	if (random() % 3 == 0)
		add("slab_min_order", random() % 6);
	if (random() % 3 == 0)
		add("slab_min_objects", 1 + random() % 200);
	if (random() % 4 == 0)
		s.conf += ",percpu:fallback";
	return s;
}

void apply(const SlabSettings &s, uint64_t seed, Faults &wanted)
{
	Random random(seed * 2 + 2);

	setenv("UKMEM_CONF", s.conf.c_str(), 1);
	install_faults();
	pretend_machine(1);
	read_other_file = os_calls.read_file;
	os_calls.read_file = read_online;
	faults = {};
	wanted = {};
	wanted.pin_limit = 64u << 20;
	for (unsigned i = 0; s.faults && i < NR_CALLS; i++) {
		wanted.per_mille[i] = random() % 2 ? 0 : static_cast<unsigned>(random() % 100);
		wanted.every[i] = random() % 3 ? 0 : static_cast<unsigned>(3 + random() % 50);
	}
	faults.pin_limit = wanted.pin_limit;
}

size_t number_of(struct kmem_cache *s, const char *attribute)
{
	char text[64] = "";

	kmem_cache_attr_show(s, attribute, text, sizeof(text));
	return strtoul(text, nullptr, 10);
}

/* Pages of shared queues. A cache that stays gets one when a second CPU frees, which depends on
 * where the threads run. */
size_t pages_of_queues()
{
	struct kmem_cache *s = kmem_cache_find("kmem_cache_queue");

	return s ? number_of(s, "slabs") * number_of(s, "pages_per_slab") : 0;
}

/* Pages that are not free, once caches keep nothing that they can do without. */
size_t pages_in_use()
{
	size_t used = 0;

	shim_for_each_cache([](struct kmem_cache *s, void *) { kmem_cache_shrink(s); },
			    nullptr);
	shim_trim(true);
	for (unsigned i = 0; i < shim_all_zones(); i++)
		used += fuzz_zone_used(i);
	return used - pages_of_queues();
}

void run(const Case &c)
{
	SlabSettings settings = settings_of_seed(c.seed);
	std::vector<std::thread> threads;
	Faults wanted;

	apply(settings, c.seed, wanted);
	if (!shim_slab_init() || !shim_kmalloc_init())
		fail("no caches");
	shadow.init();
	/* The caches of sheaves, and what the model itself needs, are there from now on. */
	kfree(kmalloc(64, GFP_KERNEL));
	size_t before = pages_in_use();
	{
		SlabWorld world(settings, c.seed, c.threads);

		faults = wanted;
		for (unsigned i = 1; i < c.threads; i++)
			threads.emplace_back([&, i] { world.run(i, c.steps / c.threads); });
		world.run(0, c.steps / c.threads);
		for (auto &t : threads)
			t.join();
		check_sound();
		faults = {};
		faults.pin_limit = wanted.pin_limit;
		world.end();
	}
	size_t after = pages_in_use();
	check_sound();
	if (after != before)
		fail("%zu pages in use before, %zu after all was freed", before, after);
}

/* In a process of its own. Result: whether it passed. */
bool run_apart(const Case &c)
{
	std::string how = "slab_fuzz --seed " + std::to_string(c.seed) + " --steps " +
			  std::to_string(c.steps);
	int status = 0;
	pid_t child;

	if (c.threads > 1)
		how += " --threads " + std::to_string(c.threads);
	fflush(nullptr);
	child = fork();
	if (!child) {
		replay = how.c_str();
		run(c);
		fflush(nullptr);
		_exit(0);
	}
	if (child > 0 && waitpid(child, &status, 0) == child && !status)
		return true;
	if (WIFSIGNALED(status))
		printf("killed by signal %d; replay: %s\n", WTERMSIG(status), how.c_str());
	printf("FAILED %s (%s)\n", how.c_str(), settings_of_seed(c.seed).conf.c_str());
	return false;
}

uint64_t number(int argc, char **argv, const char *name, uint64_t fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return strtoull(argv[i + 1], nullptr, 0);
	return fallback;
}

} // namespace

int main(int argc, char **argv)
{
	uint64_t runs = number(argc, argv, "--runs", 0), skip = number(argc, argv, "--skip", 0);
	uint64_t done = 0;
	Case c = { number(argc, argv, "--seed", 0), number(argc, argv, "--steps", 10000),
		   static_cast<unsigned>(number(argc, argv, "--threads", 1)) };
	const char *seed = getenv("UKMEM_TEST_SEED");
	unsigned failed = 0;
	Deadline deadline(number(argc, argv, "--seconds", 0));

	if (!runs) {
		printf("%s\n", settings_of_seed(c.seed).conf.c_str());
		return !run_apart(c);
	}
	c.seed = seed ? strtoull(seed, nullptr, 0) : 1000;
	printf("UKMEM_TEST_SEED=%" PRIu64 "\n", c.seed);
	c.seed += skip;
	for (; done < runs && !(done && deadline.is_over()); done++, c.seed++)
		failed += !run_apart(c);
	printf("%" PRIu64 " runs of %" PRIu64 " steps, to seed %" PRIu64 ", %u failed\n", done,
	       c.steps, c.seed - 1, failed);
	return failed != 0;
}
