/* SPDX-License-Identifier: MIT */
/*
 * <linux/lockdep.h> - nothing: lock order is not checked here.
 */
#ifndef UKMEM_COMPAT_LINUX_LOCKDEP_H
#define UKMEM_COMPAT_LINUX_LOCKDEP_H

struct lock_class_key {
	char unused;
};

/* In conditions: yes. */
#define lockdep_is_held(lock) ((void)(lock), 1)
#define lockdep_assert_held(lock) ((void)(lock))
#define lockdep_assert_held_read(lock) ((void)(lock))
#define lockdep_assert_held_write(lock) ((void)(lock))
#define lockdep_assert_not_held(lock) ((void)(lock))
#define lockdep_set_class(lock, key) ((void)(key))
#define lockdep_set_class_and_name(lock, key, name) ((void)(key))

#endif
