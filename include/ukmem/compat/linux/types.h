/* SPDX-License-Identifier: MIT */
/*
 * <linux/types.h> - the system's types, and the kernel's own names.
 */
#ifndef UKMEM_COMPAT_LINUX_TYPES_H
#define UKMEM_COMPAT_LINUX_TYPES_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/compiler_types.h>
#include <ukmem/gfp.h>

/* The kernel defines one of these, and its code asks by #ifdef. libc has both, as numbers. C++
 * code of others may compare those. */
#ifndef __cplusplus
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#undef __BIG_ENDIAN
#else
#undef __LITTLE_ENDIAN
#endif
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef u64 dma_addr_t;
typedef u64 phys_addr_t;
typedef u64 sector_t;

/* What <linux/list.h> works on. */
struct list_head {
	struct list_head *next, *prev;
};
struct hlist_node {
	struct hlist_node *next, **pprev;
};
struct hlist_head {
	struct hlist_node *first;
};

/* Functions for sorting and searching. */
typedef int (*cmp_func_t)(const void *a, const void *b);
typedef int (*cmp_r_func_t)(const void *a, const void *b, const void *priv);
typedef void (*swap_func_t)(void *a, void *b, int size);
typedef void (*swap_r_func_t)(void *a, void *b, int size, const void *priv);

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic64_t;
typedef struct {
	long counter;
} atomic_long_t;

#endif
