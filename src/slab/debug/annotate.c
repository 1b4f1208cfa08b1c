/* SPDX-License-Identifier: MIT */
/*
 * Tells AddressSanitizer and valgrind, where the process runs on one of them, that the program
 * may touch an object from its allocation to its free, and nothing around it. An object of a
 * SLAB_TYPESAFE_BY_RCU cache may be touched after its free, too, until its slab goes. twin.c
 * calls this file, so only objects of twins are reported to these tools.
 *
 * References to AddressSanitizer's functions are weak: they resolve where it runs. Valgrind
 * recognises instructions that do nothing elsewhere.
 */
#include "slab/debug/annotate.h"

#include "base/config.h"
#include "base/valgrind.h"

void __asan_poison_memory_region(void const volatile *addr, size_t size) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *addr, size_t size)
	__attribute__((weak));

enum tool { TOOL_NONE, TOOL_ASAN, TOOL_VALGRIND };

/* Synchronization: written while the first cache is made. */
static enum tool tool;

bool slab_annotate_wanted(void)
{
	if (config.annotate == ANNOTATE_NEVER)
		return false;
	if (__asan_poison_memory_region && __asan_unpoison_memory_region)
		tool = TOOL_ASAN;
	else if (valgrind_runs())
		tool = TOOL_VALGRIND;
	return tool != TOOL_NONE;
}

static bool is_told(const struct kmem_cache *twin)
{
	return unlikely(tool) &&
	       atomic_load_explicit(&twin->home->checked, memory_order_relaxed) &
		       SLAB_CHECK_ANNOTATE;
}

static bool in_use(struct kmem_cache *twin, void *obj)
{
	return atomic_load_explicit(&slab_record(twin, obj)->state, memory_order_relaxed) ==
	       SLAB_IN_USE;
}

/*
 * An object in use is left alone, because valgrind knows which of its bytes the program has
 * written.
 */
void slab_annotate_open(struct kmem_cache *twin, void *obj)
{
	char *start = (char *)obj - twin->pad_left;
	size_t end;

	if (!is_told(twin))
		return;
	if (tool == TOOL_ASAN) {
		__asan_unpoison_memory_region(start, twin->size);
		return;
	}
	valgrind_ask(VALGRIND_MEM_DEFINED, start, twin->pad_left);
	/* The record first, which tells the rest. */
	valgrind_ask(VALGRIND_MEM_DEFINED, (char *)obj + twin->object_size,
		     twin->size - twin->pad_left - twin->object_size);
	end = in_use(twin, obj) ? slab_usable(twin, obj) : 0;
	valgrind_ask(VALGRIND_MEM_DEFINED, (char *)obj + end, twin->object_size - end);
}

void slab_annotate_close(struct kmem_cache *twin, void *obj)
{
	char *start = (char *)obj - twin->pad_left;
	size_t end = 0; /* of what the program may touch */

	if (!is_told(twin))
		return;
	/* A program may read an object of a SLAB_TYPESAFE_BY_RCU cache after its free. */
	if (twin->keeps_slabs || in_use(twin, obj))
		end = slab_usable(twin, obj);
	if (tool == TOOL_ASAN) {
		__asan_poison_memory_region(start, twin->size);
		if (end)
			__asan_unpoison_memory_region(obj, end);
		return;
	}
	valgrind_ask(VALGRIND_MEM_NOACCESS, start, twin->pad_left);
	valgrind_ask(VALGRIND_MEM_NOACCESS, (char *)obj + end,
		     twin->size - twin->pad_left - end);
}

void slab_annotate_alloc(struct kmem_cache *twin, void *obj)
{
	size_t usable;

	if (!is_told(twin) || tool != TOOL_VALGRIND)
		return;
	slab_annotate_open(twin, obj);
	usable = slab_usable(twin, obj);
	slab_annotate_close(twin, obj);
	valgrind_ask(VALGRIND_MALLOCLIKE_BLOCK, obj, usable);
	if (slab_keeps_contents(twin))
		valgrind_ask(VALGRIND_MEM_DEFINED, obj, usable);
}

void slab_annotate_free(struct kmem_cache *twin, void *obj)
{
	if (is_told(twin) && tool == TOOL_VALGRIND)
		valgrind_ask(VALGRIND_FREELIKE_BLOCK, obj, 0);
}

void slab_annotate_forget(void *mem, size_t len)
{
	if (tool == TOOL_ASAN)
		__asan_unpoison_memory_region(mem, len);
	else if (tool == TOOL_VALGRIND)
		valgrind_ask(VALGRIND_MEM_UNDEFINED, mem, len);
}
