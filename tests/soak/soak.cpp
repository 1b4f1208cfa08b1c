/* SPDX-License-Identifier: MIT */
/*
 *	soak KIND [--minutes N | --seconds N] [--threads N] [--cgroup FOLDER] [--tool UKMEM]
 *		[--unplug]
 *
 * Allocates for so long and prints a line: operations, bytes, memory at the beginning and at
 * the end. README.md says what the kinds are. Exits 0; 1: memory is missing or not given
 * back, or the library is not in order; 77: this machine has not what the kind needs. A block
 * that is damaged ends the process by SIGABRT.
 *
 * --cgroup FOLDER: a group in which this process may make groups of its own (kind cgroup).
 * --tool UKMEM:    the command ukmem, which verifies the drop-in (kind malloc); the process
 *                  needs UKMEM_CONF=live:1,kfence_sample_interval:0.
 * --unplug:        this machine's CPUs may be switched off and on (kind hotplug).
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <ukmem/malloc.h>

#include "soak/soak.h"

namespace soak
{

namespace
{

constexpr int SKIPPED = 77;
constexpr double ROUND_SECONDS = 60;
constexpr unsigned ROUNDS = 8; /* at least, in a soak of a minute or more */
constexpr size_t SLACK = 64 << 10, METADATA_SLACK = 4 << 20, LIBC_BYTES = 1 << 10;
/* Under the drop-in, where classes are made when they are first needed: two slabs of 14 pages
 * with queues of classes, and the slabs that libc's few blocks lie in. */
constexpr size_t DROPIN_SLACK = 128 << 10;
constexpr size_t METADATA_GROWTH = 128 << 10; /* in the second half of the rounds */
constexpr size_t GUARDED_BYTES =
	8 * 4096; /* of the kind kfence, which may have twice as much */
constexpr uint64_t GROUP_MIN = 24u << 20, GROUP_MAX = 40u << 20, GROUP_ROOM = 6u << 20;
constexpr unsigned GROUP_SLOTS = 4096; /* of each thread: more than the group has */

Sources of_malloc(unsigned)
{
	Sources s;

	s.push_back(malloc_source());
	return s;
}

Sources of_kmalloc(unsigned)
{
	Sources s;

	s.push_back(kmalloc_source(1u << 20));
	return s;
}

Sources of_caches(unsigned)
{
	Sources s;

	s.push_back(cache_source());
	return s;
}

Sources of_pools(unsigned)
{
	Sources s;

	s.push_back(pool_source());
	return s;
}

Sources of_queues(unsigned threads)
{
	Sources s;

	s.push_back(queue_source(threads));
	return s;
}

Sources of_all(unsigned threads)
{
	Sources s;

	s.push_back(kmalloc_source(1u << 20));
	s.push_back(cache_source());
	s.push_back(pool_source());
	s.push_back(queue_source(threads));
	return s;
}

/* A program that asks for the page of an address has no guarded objects, as of_pools() does. */
Sources of_guarded(unsigned)
{
	Sources s;

	s.push_back(kmalloc_source(128u << 10));
	s.push_back(cache_source());
	return s;
}

/* Blocks that are small beside what the library keeps free of the group: 1/16. */
Sources of_group(unsigned)
{
	Sources s;

	s.push_back(kmalloc_source(128u << 10));
	s.push_back(cache_source());
	return s;
}

Sources of_cpus(unsigned threads)
{
	Sources s = of_all(threads);

	s.push_back(cpu_source());
	return s;
}

/* KFENCE's pool of fixed size comes in by and by, which is not what is looked for; the kind
 * kfence has a small one, which is in use at once. */
#define NO_KFENCE "kfence_sample_interval:0"

struct Kind {
	const char *name;
	Sources (*sources)(unsigned threads);
	const char *conf = NO_KFENCE;
} const kinds[] = {
	{ "malloc", of_malloc },
	{ "kmalloc", of_kmalloc },
	{ "caches", of_caches },
	{ "pools", of_pools },
	{ "queues", of_queues },
	{ "stops", of_all },
	{ "hardened", of_all, "hardened:1," NO_KFENCE },
	{ "kfence", of_guarded, "kfence_sample_interval:1,kfence_num_objects:16" },
	{ "cgroup", of_group },
	{ "hotplug", of_cpus },
};

struct Options {
	double seconds = 60;
	bool unplug = false;
	unsigned threads = 4;
	std::string cgroup, tool;
};

using Gauges = struct ukmem_gauges;

Gauges gauges(const Plan &plan)
{
	Gauges g;

	if (plan.dropin) {
		ukmem_malloc_trim();
		ukmem_malloc_gauges_read(&g);
	} else {
		ukmem_trim();
		ukmem_gauges_read(&g);
	}
	return g;
}

/* Whether the library's structures are in order. */
bool is_in_order(const Plan &plan, const Options &options)
{
	if (!plan.dropin)
		return ukmem_verify(stderr) == 0;
	if (options.tool.empty())
		return true;

	std::string command = "env -u LD_PRELOAD " + options.tool + " slabinfo -v " +
			      std::to_string(getpid()) + " >&2";

	return system(command.c_str()) == 0;
}

/* @end is at most a hundredth of @whole above @begin, or @slack. */
bool is_near(size_t begin, size_t end, size_t whole, size_t slack)
{
	return end <= begin + std::max(whole / 100, slack);
}

/*
 * Metadata is what describes the addresses that have been in use, and a trim gives
 * back that of runs of a MiB and more alone. It grows with the addresses' spread for some
 * minutes, so it has a slack of its own, for each node.
 */
bool is_same(const Plan &plan, const Gauges &begin, const Gauges &end, size_t most_mapped)
{
	size_t was = begin.resident - begin.metadata, is = end.resident - end.metadata;

	/* Under the drop-in: what libc keeps, a table for each stack of a thread. */
	size_t more = plan.dropin ? LIBC_BYTES : 0;
	size_t slack = SLACK + (plan.dropin ? DROPIN_SLACK : 0);

	if (end.allocated >= begin.allocated - std::min(more, begin.allocated) &&
	    end.allocated <= begin.allocated + more && is_near(was, is, was, slack) &&
	    is_near(begin.metadata, end.metadata, most_mapped,
		    METADATA_SLACK * num_node_state(N_MEMORY)))
		return true;
	fprintf(stderr,
		"soak: memory is not what it was: allocated %zu, was %zu; resident without "
		"metadata %zu, was %zu; metadata %zu, was %zu (of %zu at most mapped)\n",
		end.allocated, begin.allocated, is, was, end.metadata, begin.metadata,
		most_mapped);
	return false;
}

/* Metadata that grows in the second half of the rounds would go on to grow. */
bool has_settled(const std::vector<size_t> &metadata)
{
	size_t half = metadata.size() / 2, most = METADATA_GROWTH * num_node_state(N_MEMORY);

	if (metadata.size() < ROUNDS - 2 || metadata.back() <= metadata[half] + most)
		return true;
	fprintf(stderr, "soak: metadata goes on to grow: %zu after round %zu, %zu at the end\n",
		metadata[half], half + 1, metadata.back());
	return false;
}

double now()
{
	std::chrono::duration<double> t = std::chrono::steady_clock::now().time_since_epoch();

	return t.count();
}

std::string show(const Gauges &g)
{
	char text[100];

	snprintf(text, sizeof(text), "%zu B + %.1f KiB + %.1f KiB", g.allocated,
		 (double)(g.resident - g.metadata) / 1024, (double)g.metadata / 1024);
	return text;
}

/*
 * Rounds of a minute at most, each with new threads, caches, pools and queues. Two shorter
 * ones come first, which make what the library and libc keep.
 */
int soak(const char *kind, const Plan &plan, const Options &options)
{
	double start = now(), left = options.seconds, first = std::min(left / 5, ROUND_SECONDS);
	double most = left < ROUND_SECONDS ? left : std::min(left / ROUNDS, ROUND_SECONDS);
	std::vector<size_t> metadata; /* after each round */
	Counts counts, unused;
	Gauges begin, end;
	bool ok = true;

	for (uint64_t seed = 1; seed <= 2; seed++)
		run_round(plan, seed, first / 2, unused);
	left -= first;
	begin = end = gauges(plan);

	for (uint64_t seed = 3; ok && left > 0; seed++) {
		double time = std::min(left, most);

		run_round(plan, seed, time, counts);
		end = gauges(plan);

		ok = is_in_order(plan, options) &&
		     is_same(plan, begin, end, counts.most_mapped);
		left -= time;
		metadata.push_back(end.metadata);
	}
	ok = has_settled(metadata) && ok;
	if (!counts.operations || !counts.trims || (plan.forks && !counts.forks)) {
		fprintf(stderr, "soak: nothing was done\n");
		ok = false;
	}
	if (!strcmp(kind, "kfence") && end.resident - end.metadata < GUARDED_BYTES) {
		fprintf(stderr, "soak: hardly an object was guarded\n");
		ok = false;
	}
	if (!strcmp(kind, "cgroup") && !counts.refused) {
		fprintf(stderr, "soak: nothing was refused: the limit was never reached\n");
		ok = false;
	}
	printf("%s: %.0f s, %.1f M operations, %.1f GiB, %llu refused, %llu trims, %llu forks, "
	       "%zu MiB at most; allocated + resident + metadata: %s -> %s: %s\n",
	       kind, now() - start, (double)counts.operations / 1e6,
	       (double)counts.bytes / (1 << 30), (unsigned long long)counts.refused,
	       (unsigned long long)counts.trims, (unsigned long long)counts.forks,
	       (size_t)counts.most_mapped >> 20, show(begin).c_str(), show(end).c_str(),
	       ok ? "passed" : "FAILED");
	fflush(stdout);
	return ok ? 0 : 1;
}

int skip(const char *why)
{
	printf("SKIP: %s\n", why);
	return SKIPPED;
}

void nap(uint32_t microseconds)
{
	usleep(microseconds);
}

int exit_code(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "soak: the worker ended by signal %d\n", WTERMSIG(status));
	return 1;
}

/* Stops @pid and lets it go on, at any moment, until it has ended. */
int stop_storm(pid_t pid)
{
	unsigned long stops = 0;
	Random random(1);
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGSTOP);
		nap(random.below(2000));
		kill(pid, SIGCONT);
		nap(random.below(8000));
		stops++;
	}
	printf("stops: %lu\n", stops);
	return exit_code(status);
}

std::string read_text(const std::string &path)
{
	char text[4096];
	int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	return std::string(text, n > 0 ? (size_t)n : 0);
}

bool write_text(const std::string &path, const std::string &text)
{
	int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text.data(), text.size()) == (ssize_t)text.size();

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A group of its own, with the names of its files in either version. */
struct Group {
	std::string folder, limit, usage;

	bool make(const std::string &parent)
	{
		folder = parent + "/soak-" + std::to_string(getpid());
		if (parent.empty() || mkdir(folder.c_str(), 0755))
			return false;
		limit = folder + "/memory.max";
		usage = folder + "/memory.current";
		if (access(limit.c_str(), W_OK)) {
			limit = folder + "/memory.limit_in_bytes";
			usage = folder + "/memory.usage_in_bytes";
		}
		if (write_text(limit, std::to_string(GROUP_MAX)))
			return true;
		rmdir(folder.c_str());
		return false;
	}
};

/*
 * Lifts the limit, lowers it by eighths to what the worker has, or to the least, and leaves it
 * there for two seconds, over and over. The worker stands still when the limit falls, so that
 * the kernel need not kill it. When it goes on, it may grow by GROUP_ROOM before it is killed:
 * the library has to notice the limit first.
 */
int shrink_group(const Group &group, pid_t pid)
{
	uint64_t limit = GROUP_MAX;
	unsigned long shrunk = 0;
	uint32_t turn = 100000;
	int status;

	for (;;) {
		uint64_t usage, lowest;

		nap(turn);
		kill(pid, SIGSTOP);
		if (waitpid(pid, &status, WUNTRACED) == pid && !WIFSTOPPED(status))
			break;
		usage = strtoull(read_text(group.usage).c_str(), nullptr, 10);
		lowest = std::max(GROUP_MIN, usage + GROUP_ROOM);
		if (limit > lowest)
			shrunk++;
		limit = limit > lowest ? std::max(lowest, limit - limit / 8) : GROUP_MAX;
		turn = limit == lowest ? 2000000 : 100000;
		if (!write_text(group.limit, std::to_string(limit)))
			fprintf(stderr, "soak: the limit cannot be set\n");
		kill(pid, SIGCONT);
	}
	rmdir(group.folder.c_str());
	printf("limits: %lu times lower\n", shrunk);
	return exit_code(status);
}

/* Runs the kind in a child, which has not used the library yet, under @watch of its parent. */
template <typename Watch>
int soak_in_child(const char *kind, const Plan &plan, const Options &options,
		  const std::string &procs, Watch watch)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid) {
		if (!procs.empty() && !write_text(procs, "0"))
			_exit(1);
		_exit(soak(kind, plan, options));
	}
	return watch(pid);
}

int run_kind(const Kind &kind, const Options &options)
{
	Plan plan;

	plan.threads = options.threads;
	plan.sources = kind.sources;
	if (!strcmp(kind.name, "malloc")) {
		if (!ukmem_malloc_trim)
			return skip("the drop-in is not preloaded");
		plan.dropin = true;
	}
	if (!strcmp(kind.name, "hotplug") &&
	    (!options.unplug || access("/sys/devices/system/cpu/cpu1/online", W_OK)))
		return skip("no CPU may be switched off here; see --unplug");
	if (!strcmp(kind.name, "stops"))
		return soak_in_child(kind.name, plan, options, "", stop_storm);
	if (!strcmp(kind.name, "cgroup")) {
		Group group;

		/* While a child lives, what its parent writes to takes new memory, unasked. */
		plan.forks = false;
		plan.slots = GROUP_SLOTS;
		plan.wave = 4 * GROUP_SLOTS;
		if (!group.make(options.cgroup))
			return skip("no control group for memory that may be written to; "
				    "see --cgroup");
		return soak_in_child(kind.name, plan, options, group.folder + "/cgroup.procs",
				     [&](pid_t pid) { return shrink_group(group, pid); });
	}
	return soak(kind.name, plan, options);
}

int usage()
{
	fprintf(stderr, "usage: soak KIND [--minutes N | --seconds N] [--threads N] "
			"[--cgroup FOLDER] [--tool UKMEM] [--unplug]\nkinds:");
	for (const Kind &kind : kinds)
		fprintf(stderr, " %s", kind.name);
	fprintf(stderr, "\n");
	return 2;
}

} // namespace

} // namespace soak

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "minutes", required_argument, nullptr, 'm' },
		{ "seconds", required_argument, nullptr, 's' },
		{ "threads", required_argument, nullptr, 't' },
		{ "cgroup", required_argument, nullptr, 'c' },
		{ "tool", required_argument, nullptr, 'T' },
		{ "unplug", no_argument, nullptr, 'u' },
		{},
	};
	soak::Options options;

	for (int c; (c = getopt_long(argc, argv, "", longs, nullptr)) != -1;) {
		switch (c) {
		case 'm':
			options.seconds = atof(optarg) * 60;
			break;
		case 's':
			options.seconds = atof(optarg);
			break;
		case 't':
			options.threads = (unsigned)atoi(optarg);
			break;
		case 'c':
			options.cgroup = optarg;
			break;
		case 'T':
			options.tool = optarg;
			break;
		case 'u':
			options.unplug = true;
			break;
		default:
			return soak::usage();
		}
	}
	for (const soak::Kind &kind : soak::kinds)
		if (optind + 1 == argc && !strcmp(kind.name, argv[optind])) {
			setenv("UKMEM_CONF", kind.conf, 0);
			return soak::run_kind(kind, options);
		}
	return soak::usage();
}
