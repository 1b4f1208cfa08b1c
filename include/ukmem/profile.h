/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/profile.h> - a heap profile by sampling.
 *
 * Each allocated byte is a sample point with probability 1 / interval, so an allocation of n
 * bytes is a sample with probability 1 - exp(-n / interval), whatever its size and wherever it
 * comes from. Where samples take more than 1 % of the CPU time (the tunable profile_cpu), they
 * become rarer, and each is recorded as several, so that sums stay right on the average. The
 * library records the stack of each sample, and sees its free. Between samples the fast paths
 * are those of a program that is not profiled; without profiling nothing is different at all.
 */
#ifndef UKMEM_PROFILE_H
#define UKMEM_PROFILE_H

#include <stddef.h>

#include <ukmem/compiler.h>

UKMEM_BEGIN_DECLS

/**
 * ukmem_profile_start - begin to sample allocations
 * @interval: the mean number of bytes from one sample to the next; 0: the tunable
 * profile_interval, 512 KiB by default
 *
 * What is allocated already is not in the profile. After ukmem_profile_stop(), a second start
 * goes on with the same profile, and needs the same @interval or 0. With the tunable
 * passthrough nothing is sampled.
 *
 * Any thread; not from a signal handler. May block. Result: 0; -EINVAL: @interval is below 1
 * KiB, above 1 GiB, or another one than before; -EBUSY: another thread starts or stops
 * sampling; -EOPNOTSUPP: the process is hardened; -ENOMEM.
 */
UKMEM_EXPORT int ukmem_profile_start(size_t interval);

/**
 * ukmem_profile_stop - sample no further allocations
 *
 * The library still sees frees of samples, so a later dump tells which of them are in use.
 *
 * Any thread; not from a signal handler. May block. Result: 0; -EBUSY: another thread starts or
 * stops sampling.
 */
UKMEM_EXPORT int ukmem_profile_stop(void);

/**
 * ukmem_profile_dump - write the profile to file descriptor @fd
 *
 * The format is that of gperftools' heap profiles ("heap_v2"), which pprof reads: for each
 * stack objects and bytes in use, and allocated until now, as they would be sampled with
 * @interval, followed by /proc/self/maps.
 *
 * Any thread, also while others allocate, start or stop sampling; also from a signal handler.
 * Takes no lock and allocates nothing; blocks as write() to @fd does. Keeps errno. Result: 0,
 * or a negative errno of write(); -ENOENT: no ukmem_profile_start() has succeeded.
 */
UKMEM_EXPORT int ukmem_profile_dump(int fd);

UKMEM_END_DECLS

#endif
