/* SPDX-License-Identifier: MIT */
/*
 * <linux/cleanup.h> - frees a variable's value when the variable goes out of scope.
 *
 * 	char *name __free(kfree) = kstrdup(s, GFP_KERNEL);
 * 	...
 * 	return_ptr(name);		not freed: the caller owns it
 */
#ifndef UKMEM_COMPAT_LINUX_CLEANUP_H
#define UKMEM_COMPAT_LINUX_CLEANUP_H

#define DEFINE_FREE(name, type, action)                                                        \
	static inline __attribute__((__unused__)) void __free_##name(void *variable)           \
	{                                                                                      \
		type _T = *(type *)variable;                                                   \
		action;                                                                        \
	}
#define __free(name) __attribute__((__cleanup__(__free_##name)))

#define no_free_ptr(p)                                                                         \
	__extension__({                                                                        \
		__typeof__(p) ukmem_taken = (p);                                               \
		(p) = NULL;                                                                    \
		ukmem_taken;                                                                   \
	})
#define return_ptr(p) return no_free_ptr(p)
#define retain_and_null_ptr(p) ((void)no_free_ptr(p))

#endif
