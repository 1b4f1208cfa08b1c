/* SPDX-License-Identifier: MIT */
#include "hard_shim.h"

#include "slab/debug/hard.h"

bool shim_hard_is_zero(const void *slot, size_t size)
{
	return slab_hard_is_zero(slot, size);
}

bool shim_hard_is_near_zero(const void *slot, size_t size)
{
	return slab_hard_is_near_zero(slot, size);
}

void shim_hard_zero_near(void *slot, size_t size)
{
	slab_hard_zero_near(slot, size);
}
