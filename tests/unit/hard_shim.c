/* SPDX-License-Identifier: MIT */
#include "hard_shim.h"

#include "page/guard.h"
#include "slab/debug/hard.h"
#include "slab/slab_hard.h"

bool shim_hard_is_zero(const void *slot, size_t size)
{
	return slab_hard_is_zero(slot, size);
}

bool shim_hard_is_near_zero(const void *slot, size_t size)
{
	return slab_hard_is_near_zero(slot, size);
}

char *shim_hard_sealed(size_t *size)
{
	*size = sizeof(slab_hard_sealed);
	return (char *)&slab_hard_sealed;
}

void shim_hard_zero_near(void *slot, size_t size)
{
	slab_hard_zero_near(slot, size);
}

unsigned int shim_hard_secret_place(const uint64_t *secret, uintptr_t slot, uint32_t lines)
{
	return (unsigned int)slab_secret_place(secret, slot, lines);
}

void shim_hard_shuffle(void **objs, unsigned int n)
{
	slab_hard_shuffle(objs, n);
}

bool shim_hard_is_wide(size_t size)
{
	struct slab_hard_class c = { .size = (uint32_t)size };

	return slab_hard_is_wide(&c);
}

slab_wide bool shim_hard_is_zero_wide(const void *slot, size_t size)
{
	return slab_hard_is_zero_wide(slot, size);
}

slab_wide void shim_hard_zero_wide(void *slot, size_t size)
{
	slab_hard_zero_wide(slot, size);
}

void shim_hard_free_later(struct page *page)
{
	page_free_later(page, 1, PAGE_UNGUARDED);
}
