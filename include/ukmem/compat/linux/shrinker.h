/* SPDX-License-Identifier: MIT */
/*
 * <linux/shrinker.h> - giving memory back when it is short: <ukmem/shrinker.h>, whose
 * register_shrinker is the interface up to Linux 6.6, and the later one.
 */
#ifndef UKMEM_COMPAT_LINUX_SHRINKER_H
#define UKMEM_COMPAT_LINUX_SHRINKER_H

#include <stdarg.h>
#include <stdbool.h>

#include <linux/slab.h>
#include <linux/types.h>
#include <ukmem/shrinker.h>

/* Accepted in shrinker_alloc's flags, without effect: shrinkers are asked process-wide. */
#define SHRINKER_NUMA_AWARE (1u << 3)
#define SHRINKER_MEMCG_AWARE (1u << 4)
#define SHRINKER_NONSLAB (1u << 5)

/* A shrinker that is not registered yet, or NULL. */
static inline UKMEM_PRINTF(2, 3) struct shrinker *shrinker_alloc(unsigned int flags,
								 const char *fmt, ...)
{
	struct shrinker *s = kzalloc_obj(struct shrinker);
	va_list args;

	(void)flags;
	if (!s)
		return NULL;
	va_start(args, fmt);
	s->name = kvasprintf(GFP_KERNEL, fmt, args);
	va_end(args);
	s->seeks = DEFAULT_SEEKS;
	if (s->name)
		return s;
	kfree(s);
	return NULL;
}

static inline void shrinker_register(struct shrinker *s)
{
	(void)register_shrinker(s, s->name);
}

/* Whether it was registered or not. */
static inline void shrinker_free(struct shrinker *s)
{
	if (!s)
		return;
	unregister_shrinker(s);
	kfree(s->name);
	kfree(s);
}

#endif
