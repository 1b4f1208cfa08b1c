/* SPDX-License-Identifier: MIT */
/* What part of the machine this process has. */
#ifndef OS_OS_SHARE_H
#define OS_OS_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* Look again what the process may use. */
void os_share_update(void);
/* So many CPUs are online and of the process's cpuset. Until it is called: not known. */
void os_share_note_cpuset(unsigned int n);

/* CPUs this process may use; thousandths of a CPU it may use at once. */
unsigned int os_share_cpus(void);
unsigned int os_share_milli(void);
/* Bytes its control group allows; UINT64_MAX: no limit. */
uint64_t os_share_memory(void);
/* The tunable cpu_cache_bytes, as far as the process has a CPU. */
uint64_t os_share_cache_bytes(void);
/* The same part of @v. */
size_t os_share_of(size_t v);

#endif
