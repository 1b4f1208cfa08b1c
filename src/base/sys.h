/* SPDX-License-Identifier: MIT */
/*
 * The system calls of what lies below os/: locks, messages, statistics. Calls, not libc's
 * functions, some of which are cancellation points. errno is kept.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* While the word is @value, until somebody wakes, for at most @ms. */
void sys_futex_wait(const void *word, uint32_t value, uint64_t ms);
/* Up to @n threads that wait for the word. */
void sys_futex_wake(const void *word, unsigned int n);
/* Bytes written, or a negative errno. */
ssize_t sys_write(int fd, const void *buf, size_t n);

#endif
