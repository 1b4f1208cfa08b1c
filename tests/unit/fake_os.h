/* SPDX-License-Identifier: MIT */
/* Pretend files, nodes and failures behind os_calls. */
#ifndef UNIT_FAKE_OS_H
#define UNIT_FAKE_OS_H

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "test_util.h"

/* Files that exist; every other path is -ENOENT. */
inline std::map<std::string, std::string> fake_files;

inline ssize_t fake_read_file(const char *path, char *buf, size_t size)
{
	auto file = fake_files.find(path);

	if (file == fake_files.end())
		return -ENOENT;
	size_t n = std::min(size, file->second.size());
	memcpy(buf, file->second.data(), n);
	return static_cast<ssize_t>(n);
}

/* The list of CPUs online, as sysfs shows it; all other files are the system's. */
inline std::string fake_online;

inline ssize_t fake_online_cpus(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/online"))
		return snprintf(buf, size, "%s\n", fake_online.c_str());
	return os_calls_linux.read_file(path, buf, size);
}

/* A kernel that has no guard regions: before 6.13. */
inline int no_guard_regions(void *, size_t, int)
{
	return -EINVAL;
}

/* The kernel's MADV_GUARD_INSTALL and MADV_GUARD_REMOVE, which libc's header may not have. */
inline constexpr int kGuardInstall = 102, kGuardRemove = 103;

/* Whether the kernel has guard regions. @page: a page of the test's, which is open. */
inline bool has_guard_regions(void *page)
{
	return !os_calls.madvise_guard(page, os_page_size(), kGuardRemove);
}

/* Nodes the process may use, a bit each. */
inline unsigned long fake_mems = ~0ul;
inline int fake_mems_error;

inline int fake_get_mems_allowed(unsigned long *nodes, unsigned long)
{
	if (!fake_mems_error)
		nodes[0] = fake_mems;
	return fake_mems_error;
}

inline int fake_mbind_error;
inline unsigned fake_mbind_calls;

inline int fake_mbind(void *, size_t, int, const unsigned long *, unsigned long)
{
	fake_mbind_calls++;
	return fake_mbind_error;
}

/* CPUs the thread may run on; none: the system does not tell. */
inline std::vector<unsigned> fake_allowed;

inline long fake_affinity(unsigned long *mask, size_t size)
{
	if (fake_allowed.empty())
		return -ENOSYS;
	memset(mask, 0, size);
	for (unsigned cpu : fake_allowed)
		mask[cpu / 64] |= 1ul << (cpu % 64);
	return static_cast<long>(size);
}

/* A machine with nodes @list ("0,2"), of which each allowed CPU gets one in turn. */
inline void fake_nodes(const std::string &list, const std::vector<unsigned> &ids)
{
	const std::string node = "/sys/devices/system/node/";
	auto cpus = allowed_cpus();

	fake_files.clear();
	fake_files["/sys/devices/system/cpu/possible"] =
		"0-" + std::to_string(cpus.back()) + "\n";
	fake_files[node + "has_memory"] = list + "\n";
	fake_files[node + "online"] = list + "\n";
	for (size_t n = 0; n < ids.size(); n++) {
		std::string dir = node + "node" + std::to_string(ids[n]) + "/", cpulist,
			    distance;

		for (size_t i = n; i < cpus.size(); i += ids.size())
			cpulist += (cpulist.empty() ? "" : ",") + std::to_string(cpus[i]);
		for (size_t k = 0; k < ids.size(); k++)
			distance += (k ? " " : "") + std::string(k == n ? "10" : "21");
		fake_files[dir + "cpulist"] = cpulist + "\n";
		fake_files[dir + "distance"] = distance + "\n";
	}
	fake_files["/proc/meminfo"] = "MemTotal:        8000000 kB\n";
	os_calls.read_file = fake_read_file;
	os_calls.get_mems_allowed = fake_get_mems_allowed;
	os_calls.mbind = fake_mbind;
}

/* Failure of the Nth call of one kind; with @ever of all later ones too. */
struct FailNth {
	unsigned calls, nth; /* nth 0: none */
	bool ever;

	bool fails()
	{
		calls++;
		return nth && (calls == nth || (ever && calls > nth));
	}
	bool reached() const
	{
		return calls >= nth;
	}
};

inline FailNth fail_mmap, fail_mprotect;

inline int failing_mmap(void **addr, size_t len, int prot, int flags)
{
	return fail_mmap.fails() ? -ENOMEM : os_calls_linux.mmap(addr, len, prot, flags);
}

inline int failing_mprotect(void *addr, size_t len, int prot)
{
	return fail_mprotect.fails() ? -ENOMEM : os_calls_linux.mprotect(addr, len, prot);
}

#endif
