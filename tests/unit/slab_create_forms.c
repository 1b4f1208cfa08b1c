/* SPDX-License-Identifier: MIT */
/* Both forms of kmem_cache_create as C sees them. */
#include "slab_create_forms.h"

struct thing {
	char bytes[40];
} __attribute__((aligned(64)));

static void construct(void *p)
{
	*(char *)p = 1;
}

static int last;

#if __STDC_VERSION__ >= 202311L
#define NO_ARGS nullptr
#else
#define NO_ARGS NULL
#endif

static unsigned int counted(unsigned int value)
{
	last++;
	return value;
}

unsigned int create_in_c(struct kmem_cache **s)
{
	struct kmem_cache_args args = { .align = 128, .ctor = construct, .sheaf_capacity = 7 };
	const struct kmem_cache_args *constant = &args;

	s[0] = kmem_cache_create("c-five", 40, 256, SLAB_HWCACHE_ALIGN, construct);
	s[1] = kmem_cache_create("c-args", 40, &args, SLAB_TYPESAFE_BY_RCU);
	s[2] = kmem_cache_create("c-const", 40, constant, 0);
	s[3] = kmem_cache_create("c-null", 40, NULL, 0);
	s[4] = kmem_cache_create("c-zero", 40, 0, 0, NULL);
	s[5] = KMEM_CACHE(thing, SLAB_HWCACHE_ALIGN);
	s[6] = kmem_cache_create("c-once", counted(24), counted(32), counted(0), NULL);
	s[7] = __kmem_cache_create_args("c-direct", 40, &args, 0);
	s[8] = kmem_cache_create("c-nullptr", 40, NO_ARGS, 0);
	return (unsigned int)last;
}
