/* SPDX-License-Identifier: MIT */
/* The pool's pages: opened, closed, filled and checked. */
#include "kfence/object.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"

struct kfence_pool kfence_pool;

enum {
	SPACE_SHARE = 256, /* the most that a pool takes of a limit on address space: 1/256 */
	PATIENCE_MS = 1000,
};

static bool is_cramped(size_t bytes)
{
	size_t space;

	return config.address_space == ADDRESS_SPACE_SMALL ||
	       os_calls.address_space_limit(&space) || bytes > space / SPACE_SHARE;
}

bool kfence_pool_init(unsigned int nr_objects)
{
	struct kfence_pool *p = &kfence_pool;
	size_t page = os_page_size(), len = (2 * (size_t)nr_objects + 1) * page;
	void *base, *objects;

	p->objects_bytes = align_up(nr_objects * sizeof(struct kfence_object), page);
	if (is_cramped(len + p->objects_bytes) || os_map_metadata(p->objects_bytes, &objects))
		return false;
	if (os_reserve(len, page, &base)) {
		os_release(objects, p->objects_bytes);
		return false;
	}
	os_calls.madvise(base, len, MADV_NOHUGEPAGE);
	p->base = base;
	p->page_size = page;
	p->nr_objects = nr_objects;
	p->objects = objects;
	atomic_store_explicit(&p->len, len, memory_order_release); /* J1 */
	return true;
}

struct kfence_object *kfence_object_at(const void *p)
{
	size_t page = (size_t)((const char *)p - kfence_pool.base) / kfence_pool.page_size;

	debug_assert(page <= 2 * (size_t)kfence_pool.nr_objects);
	return page % 2 ? &kfence_pool.objects[page / 2] : NULL;
}

bool kfence_open_page(char *page)
{
	return !os_commit(page, kfence_pool.page_size);
}

bool kfence_close_page(char *page)
{
	return !os_calls.mprotect(page, kfence_pool.page_size, PROT_NONE);
}

void kfence_close_guards(struct kfence_object *o)
{
	unsigned int opened = atomic_exchange_explicit(&o->opened, 0, memory_order_relaxed);

	if (opened & KFENCE_LEFT)
		kfence_close_page(kfence_page(o) - kfence_pool.page_size);
	if (opened & KFENCE_RIGHT)
		kfence_close_page(kfence_page(o) + kfence_pool.page_size);
}

/* A freed object's page. Another thread must not take the object while its page is closed. */
static bool close_freed(struct kfence_object *o)
{
	uintptr_t freed = KFENCE_FREED;

	if (!atomic_compare_exchange_strong_explicit(
		    &o->state, &freed, lock_self() | KFENCE_FREEING, memory_order_acquire,
		    memory_order_relaxed))
		return false;
	kfence_close_page(kfence_page(o));
	atomic_store_explicit(&o->state, KFENCE_FREED, memory_order_release); /* E1 */
	return true;
}

bool kfence_close_late(struct kfence_object *o, enum kfence_opened which)
{
	if (which == KFENCE_LEFT)
		return kfence_close_page(kfence_page(o) - kfence_pool.page_size);
	if (which == KFENCE_RIGHT)
		return kfence_close_page(kfence_page(o) + kfence_pool.page_size);
	for (unsigned int ms = 0; ms < PATIENCE_MS; ms++) {
		if (close_freed(o))
			return true;
		/* The thread that frees the object may have closed the page, or not yet. */
		if (kfence_state(o) != KFENCE_FREEING)
			return false;
		os_pause_ms(1);
	}
	return false;
}

/* Differs from byte to byte, so that a copy within the page is noticed, too. */
uint8_t kfence_canary(const void *p)
{
	return 0xaa ^ ((uintptr_t)p & 7);
}

static void fill(char *from, const char *to)
{
	for (; from < to; from++)
		*(uint8_t *)from = kfence_canary(from);
}

void kfence_place(struct kfence_object *o, size_t size, size_t align, bool right)
{
	char *page = kfence_page(o), *end = page + kfence_pool.page_size;

	debug_assert(size && size <= kfence_pool.page_size && is_pow2(align));
	o->addr = right ? page + ((kfence_pool.page_size - size) & ~(align - 1)) : page;
	o->size = size;
	fill(page, o->addr);
	fill(o->addr + size, end);
}

static const uint8_t *differs(const char *from, const char *to)
{
	for (const uint8_t *p = (const uint8_t *)from; p < (const uint8_t *)to; p++)
		if (*p != kfence_canary(p))
			return p;
	return NULL;
}

const uint8_t *kfence_damage(const struct kfence_object *o)
{
	char *page = kfence_page(o);
	const uint8_t *before = differs(page, o->addr);

	return before ? before : differs(o->addr + o->size, page + kfence_pool.page_size);
}
