/* SPDX-License-Identifier: MIT */
/*
 * System calls for the code below os/: locks, messages, statistics. These functions do not call
 * libc's, some of which are cancellation points. They keep errno.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Sleeps if the word is @value, until sys_futex_wake() or a signal, for at most @us
 * microseconds, or @ms milliseconds. */
void sys_futex_wait_us(const void *word, uint32_t value, uint64_t us);
void sys_futex_wait(const void *word, uint32_t value, uint64_t ms);
/* Wakes up to @n threads that wait for the word. */
void sys_futex_wake(const void *word, unsigned int n);
/* Sleeps for so long, or until a signal. The system call is futex, which locks need anyway.
 * Keeps errno; is no cancellation point. */
void sys_pause_ms(uint64_t ms);
/* Result: bytes written, or a negative errno. A pipe that nobody reads and a limit on the size
 * of files must not end a program for a text that it knows nothing of: without SIGPIPE and
 * SIGXFSZ. */
ssize_t sys_write(int fd, const void *buf, size_t n);
/* Writes all of @buf, however often it takes; waits for the reader of a full pipe, also where
 * the program does not want to, but not for ever. Result: 0 or a negative errno. */
int sys_write_all(int fd, const void *buf, size_t n);
/* Opens a file to read it; does not wait for the other end of a pipe. Result: its descriptor,
 * or a negative errno. */
int sys_open(const char *path);
/* In the directory @dir, with more flags. */
int sys_open_at(int dir, const char *path, int more);
ssize_t sys_read(int fd, void *buf, size_t n);
void sys_close(int fd);
int sys_getpid(void);
/* For what is reported: the same, or 0 in a confined process. */
int sys_process_to_tell(void);
void sys_yield(void);

/*
 * From now on the process may have a seccomp filter that kills it for calls it does without.
 * SYS_CONFINED_BY_CHILD: only a child of vfork, which shares the memory, may have one.
 */
enum sys_confined { SYS_NOT_CONFINED, SYS_CONFINED_BY_CHILD, SYS_CONFINED };
void sys_confine(enum sys_confined how);
/* Undoes one call for a child of vfork, which has ended or runs a program; and all of them. */
void sys_unconfine_child(void);
void sys_unconfine_children(void);
enum sys_confined sys_confined(void);

static inline bool sys_is_confined(void)
{
	return sys_confined() != SYS_NOT_CONFINED;
}

#endif
