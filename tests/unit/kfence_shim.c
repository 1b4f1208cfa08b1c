/* SPDX-License-Identifier: MIT */
#include "kfence_shim.h"

#include <string.h>

#include "base/stack_word.h"
#include "kfence/kfence.h"
#include "kmalloc/kmalloc.h"

void shim_kfence_open_late(void)
{
	atomic_store(&kfence_gate.open, KFENCE_GATE_ALL);
}

void shim_kfence_open(void)
{
	uint64_t never = UINT64_MAX;

	atomic_compare_exchange_strong(&kfence_gate.next, &never, UINT64_MAX - 1);
	shim_kfence_open_late();
}

void shim_kfence_close(void)
{
	atomic_store(&kfence_gate.open, 0);
}

bool shim_kfence_is_open(void)
{
	return kfence_gate_is_open();
}

void shim_kfence_look(uint64_t now)
{
	kfence_look(now);
}

bool shim_kfence_has(const void *p)
{
	return kfence_has(p);
}

size_t shim_kfence_pool_bytes(void)
{
	return atomic_load(&kfence_pool.len);
}

unsigned int shim_kfence_index(const void *p)
{
	return kfence_index(kfence_object_at(p));
}

size_t shim_kfence_size(const void *p)
{
	return kfence_size(p);
}

unsigned int shim_kfence_state(unsigned int index)
{
	return kfence_state(&kfence_pool.objects[index]);
}

bool shim_kfence_is_opened(unsigned int index)
{
	return kfence_is_opened(&kfence_pool.objects[index], KFENCE_PAGE);
}

bool shim_kfence_is_readable(const void *p)
{
	return is_readable((uintptr_t)p & ~(sizeof(uintptr_t) - 1));
}

void shim_kfence_set_state(unsigned int index, unsigned int state, enum shim_kfence_thread by)
{
	static uint64_t another;
	uintptr_t thread = by == SHIM_THIS	? lock_self()
			   : by == SHIM_ANOTHER ? (uintptr_t)&another
						: 0;

	atomic_store(&kfence_pool.objects[index].state, thread | state);
}

void *shim_kmalloc_slow(size_t size, unsigned int flags)
{
	struct kmem_cache *s = size_class_cache(size);
	void *p = slab_alloc_slow(s, 0, size, flags, __builtin_return_address(0));

	return p && flags & __GFP_ZERO ? memset(p, 0, size) : p;
}
