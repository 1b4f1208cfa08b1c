/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "faults.h"

extern "C" {
#include "os/os.h"
}

namespace fuzz
{

unsigned long mems_allowed = ~0ul;

namespace
{

std::map<std::string, std::string> files;

ssize_t read_pretend_file(const char *path, char *buf, size_t size)
{
	auto file = files.find(path);

	if (file == files.end())
		return -ENOENT;
	size_t n = std::min(size, file->second.size());
	memcpy(buf, file->second.data(), n);
	return static_cast<ssize_t>(n);
}

int pretend_mems_allowed(unsigned long *nodes, unsigned long)
{
	nodes[0] = mems_allowed;
	return 0;
}

int no_mempolicy(int *mode, unsigned long *, unsigned long)
{
	*mode = 0;
	return 0;
}

int scarce_limit(size_t *bytes)
{
	*bytes = static_cast<size_t>(4) << 30;
	return 0;
}

bool one_in(Random &random, unsigned n)
{
	return random() % n == 0;
}

unsigned long pick(Random &random, std::initializer_list<unsigned long> list)
{
	return list.begin()[random() % list.size()];
}

void choose_faults(Random &random)
{
	for (unsigned i = 0; i < NR_CALLS; i++) {
		faults.per_mille[i] = pick(random, { 0, 1, 10, 100 });
		faults.every[i] = static_cast<unsigned>(pick(random, { 0, 0, 3, 50, 1000 }));
	}
}

} // namespace

int pretend_distance(unsigned from, unsigned to)
{
	/* Two sockets of two nodes each, and so on; the far ones not all alike. */
	if (from == to)
		return 10;
	if (from / 2 == to / 2)
		return 14;
	return (from + to) % 3 ? 22 : 32;
}

std::vector<int> allowed_cpus()
{
	std::vector<int> cpus;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			cpus.push_back(i);
	return cpus;
}

void pretend_machine(unsigned nodes)
{
	const std::string node = "/sys/devices/system/node/";
	unsigned cpus = std::max(kCpus, static_cast<unsigned>(allowed_cpus().back()) + 1);
	std::string list = "0-" + std::to_string(nodes - 1) + "\n";

	files["/sys/devices/system/cpu/possible"] = "0-" + std::to_string(cpus - 1) + "\n";
	files[node + "has_memory"] = files[node + "online"] = list;
	files["/proc/meminfo"] = "MemTotal:        8000000 kB\n";
	for (unsigned n = 0; n < nodes; n++) {
		std::string dir = node + "node" + std::to_string(n) + "/", cpulist, distance;

		for (unsigned cpu = n; cpu < cpus; cpu += nodes)
			cpulist += (cpulist.empty() ? "" : ",") + std::to_string(cpu);
		for (unsigned k = 0; k < nodes; k++)
			distance += std::to_string(pretend_distance(n, k)) + " ";
		files[dir + "cpulist"] = cpulist + "\n";
		files[dir + "distance"] = distance + "\n";
	}
	os_calls.read_file = read_pretend_file;
	os_calls.get_mems_allowed = pretend_mems_allowed;
}

Settings settings_of(uint64_t seed)
{
	Random random(seed * 2 + 1);
	Settings s = {};
	unsigned long limit = pick(random, { 6, 12, 24, 48 });
	auto add = [&](const char *key, unsigned long value, const char *unit = "") {
		s.conf += (s.conf.empty() ? "" : ",") + std::string(key) + ":" +
			  std::to_string(value) + unit;
	};

	s.nodes = static_cast<unsigned>(1 + random() % 5);
	s.machine = s.nodes > 1 && one_in(random, 3);
	s.scarce = !kSanitized && one_in(random, 6);
	s.small_zones = !s.scarce && one_in(random, 4);
	s.faults = one_in(random, 2);
	s.conf = "thp:never,background_thread:never"; /* another thread, with a clock of its own
						       */
	add("limit", limit, "m");
	if (!s.machine)
		add("numa_fake", s.nodes);
	if (one_in(random, 2))
		add("node_limit", 1 + limit * pick(random, { 4, 8, 12 }) / 8 / s.nodes, "m");
	if (s.small_zones)
		add("reserve", 64 * s.nodes, "m");
	add("pagesets", !one_in(random, 4));
	if (one_in(random, 4))
		add("percpu_pagelist_fraction", pick(random, { 8, 30, 1000 }));
	add("zone_reclaim_mode", one_in(random, 4));
	add("zonelist_cache", !one_in(random, 3));
	add("lowmem_reserve_ratio", pick(random, { 0, 1, 1, 2, 32 }));
	add("dirty_max", pick(random, { 0, 64, 2048 }), "k");
	add("dirty_decay_ms", pick(random, { 0, 10, 1000 }));
	if (one_in(random, 3))
		s.conf += ",percpu:fallback";
	return s;
}

void settings_apply(const Settings &s, uint64_t seed)
{
	Random random(seed * 2 + 2);

	setenv("UKMEM_CONF", s.conf.c_str(), 1);
	install_faults();
	os_calls.get_mempolicy = no_mempolicy;
	faults = {};
	faults.pin_limit = pick(random, { 0, 8, 64 }) << 20;
	if (s.faults)
		choose_faults(random);
	pretend_machine(s.machine ? s.nodes : 1);
	if (s.scarce)
		os_calls.address_space_limit = scarce_limit;
}

std::string Settings::as_text() const
{
	std::string text =
		std::to_string(nodes) + (machine ? " real nodes, " : " nodes, ") + conf;

	text += scarce ? ", scarce addresses" : "";
	return text + (faults ? ", failures" : "");
}

} // namespace fuzz
