/* SPDX-License-Identifier: MIT */
/*
 * <linux/string.h> - the system's, and the kernel's additions. Copies that are allocated:
 * <ukmem/kmalloc.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_STRING_H
#define UKMEM_COMPAT_LINUX_STRING_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/string.h>

#include <errno.h>
#include <stdbool.h>

#include <linux/build_bug.h>
#include <linux/types.h>
#include <ukmem/kmalloc.h>

#define memzero_explicit(p, n) explicit_bzero((p), (n))

/* What is behind the last slash. */
static inline const char *kbasename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Copy as much as fits, with a terminating zero. Result: characters, or -E2BIG. */
static inline ssize_t strscpy(char *to, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		to[i] = from[i];
		if (!from[i])
			return (ssize_t)i;
	}
	if (size)
		to[size - 1] = '\0';
	return -E2BIG;
}

/* Without @size, that of @to, which must be an array then. */
#ifndef __cplusplus
#define strscpy(to, ...) UKMEM_STRSCPY(to, __VA_ARGS__, sizeof(to) + ukmem_no_array(to), 0)
#define UKMEM_STRSCPY(to, from, size, ...) (strscpy)((to), (from), (size))
#define ukmem_no_array(a)                                                                      \
	BUILD_BUG_ON_ZERO(__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])))
#else
extern "C++" {
template <size_t size> static inline ssize_t strscpy(char (&to)[size], const char *from)
{
	return strscpy(to, from, size);
}
}
#endif

/* The first byte of @n that is not @c, or NULL. */
static inline void *memchr_inv(const void *p, int c, size_t n)
{
	const unsigned char *b = (const unsigned char *)p;

	for (size_t i = 0; i < n; i++)
		if (b[i] != (unsigned char)c)
			return (void *)(size_t)(b + i);
	return NULL;
}

static inline bool strstarts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The length of @prefix if @s begins with it, else 0. */
static inline size_t str_has_prefix(const char *s, const char *prefix)
{
	return strstarts(s, prefix) ? strlen(prefix) : 0;
}

static inline void *memset16(u16 *p, u16 value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = value;
	return p;
}

static inline void *memset32(u32 *p, u32 value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = value;
	return p;
}

static inline void *memset64(u64 *p, u64 value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = value;
	return p;
}

#endif
