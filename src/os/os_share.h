/* SPDX-License-Identifier: MIT */
/* The part of the machine that this process may use. */
#ifndef OS_OS_SHARE_H
#define OS_OS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds out anew what the process may use. */
void os_share_update(void);
/* The same at the start. But the drop-in assumes that the control group has no limits, and
 * reads none of its files, until os_share_complete() is called (D8.8). */
void os_share_start(void);
/* Reads the limits of the control group, unless that was done before. Any number of threads may
 * do this at the same time, and handlers that interrupt them. False: they cannot be read now.
 */
bool os_share_complete(void);
/* Finds out anew what memory the process's control group allows, and keeps what was known if
 * that cannot be read now. *@now: what was read. */
struct os_cgroup_limits;
void os_share_update_memory(struct os_cgroup_limits *now);
/* Tells that @n CPUs of the process's cpuset are online. Before the first call their number is
 * not known. */
void os_share_note_cpuset(unsigned int n);

/* CPUs this process may use; thousandths of a CPU it may use at once. */
unsigned int os_share_cpus(void);
unsigned int os_share_milli(void);
/* The bytes that its control group allows; UINT64_MAX: no limit. */
uint64_t os_share_memory(void);
/* The tunable cpu_cache_bytes times the part that the process may use of each of its CPUs, and
 * no more than its control group's memory permits. */
uint64_t os_share_cache_bytes(void);
/* @v times the part that the process may use of each of its CPUs. */
size_t os_share_of(size_t v);

#endif
