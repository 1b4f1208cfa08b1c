/* SPDX-License-Identifier: MIT */
/*
 * <linux/local_lock.h>: one lock for all CPUs. It keeps other threads out of a CPU's variable
 * even if the thread that has the lock goes to another CPU meanwhile.
 */
#ifndef KERNEL_SHIM_LOCAL_LOCK_H
#define KERNEL_SHIM_LOCAL_LOCK_H

#include <pthread.h>

typedef struct {
	char unused;
} local_lock_t;

#define INIT_LOCAL_LOCK(name)                                                                  \
	{                                                                                      \
		0                                                                              \
	}

extern pthread_mutex_t shim_local_lock;

/* The lock is that of no particular CPU: where it is, is not looked at. */
#define local_lock(lock) ((void)sizeof(lock), (void)pthread_mutex_lock(&shim_local_lock))
#define local_unlock(lock) ((void)sizeof(lock), (void)pthread_mutex_unlock(&shim_local_lock))

#endif
