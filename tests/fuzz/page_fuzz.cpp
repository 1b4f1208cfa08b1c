/* SPDX-License-Identifier: MIT */
/*
 * page_fuzz: random steps over the page allocator, beside a model of it.
 *
 *   page_fuzz --seed N --steps M [--threads T]	one run
 *   page_fuzz --runs K --steps M [--threads T] [--skip S] [--seconds X]
 *		K runs of different seeds from UKMEM_TEST_SEED + S on; first, if S is 0, of
 *		those that once found something; after X seconds no other begins
 *
 * A run is a process of its own: its seed chooses tunables, machine and failures.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "machine.h"

extern "C" {
#include "page_shim.h"
}

using namespace fuzz;

namespace
{

/* Seeds that found something, each with what it was. */
struct Case {
	uint64_t seed, steps;
	unsigned threads;
};

const Case regressions[] = {
	/* Nodes other than those of the mask, with __GFP_THISNODE. */
	{ 2, 1000, 1 },
	/* The end of an exact size's last page was not zeroed. */
	{ 1, 1000, 1 },
	/* Interleaving's hits on nodes that only helped out. */
	{ 9, 9000, 1 },
	/* More resident than the limit: pinned memory, batches, merged blocks, carving. */
	{ 12, 2000, 1 },
	{ 101, 110000, 1 },
	{ 122, 40000, 1 },
	/* Below the watermark by a batch. */
	{ 18, 1000, 1 },
	{ 30, 12000, 1 },
	/* Pages for devices that were not pinned, after two failures. */
	{ 14, 2000, 1 },
	{ 21, 5000, 1 },
};

/* All freed: by whom does not matter. */
void end_run(std::vector<std::unique_ptr<Machine>> &machines)
{
	faults = {};
	for (auto &m : machines)
		m->free_all();
	machines.clear();
	for (unsigned i = 0; i < world.zones; i++)
		fuzz_drain(i);
	check_zones();
	shim_trim(true);
	check_empty();
}

void run(const Case &c)
{
	Settings settings = settings_of(c.seed);
	std::vector<std::unique_ptr<Machine>> machines;
	std::vector<std::thread> threads;
	Faults wanted;

	settings_apply(settings, c.seed);
	wanted = faults;
	faults = {};
	if (!shim_page_init())
		fail("no allocator");
	world_init(settings, c.threads == 1);
	for (unsigned i = 0; i < c.threads; i++)
		machines.push_back(std::make_unique<Machine>(c.seed, i));
	faults = wanted;
	if (c.threads == 1)
		machines[0]->run(c.steps);
	for (unsigned i = 0; c.threads > 1 && i < c.threads; i++)
		threads.emplace_back([&, i] { machines[i]->run(c.steps / c.threads); });
	for (auto &t : threads)
		t.join();
	check_sound();
	end_run(machines);
	check_sound();
}

/* In a process of its own. Result: whether it passed. */
bool run_apart(const Case &c)
{
	std::string how = "page_fuzz --seed " + std::to_string(c.seed) + " --steps " +
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
	printf("FAILED %s (%s)\n", how.c_str(), settings_of(c.seed).as_text().c_str());
	return false;
}

uint64_t first_seed()
{
	const char *s = getenv("UKMEM_TEST_SEED");
	uint64_t seed = s ? strtoull(s, nullptr, 0) : 1000;

	printf("UKMEM_TEST_SEED=%" PRIu64 "\n", seed);
	return seed;
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
	unsigned failed = 0;
	Deadline deadline(number(argc, argv, "--seconds", 0));

	if (!runs) {
		printf("%s\n", settings_of(c.seed).as_text().c_str());
		return !run_apart(c);
	}
	for (Case old : regressions) {
		if (kSanitized && old.steps > c.steps)
			old.steps = c.steps;
		if (!skip && (old.threads > 1) == (c.threads > 1))
			failed += !run_apart(old);
	}
	c.seed = first_seed() + skip;
	for (; done < runs && !(done && deadline.is_over()); done++, c.seed++)
		failed += !run_apart(c);
	printf("%" PRIu64 " runs of %" PRIu64 " steps, to seed %" PRIu64 ", %u failed\n", done,
	       c.steps, c.seed - 1, failed);
	return failed != 0;
}
