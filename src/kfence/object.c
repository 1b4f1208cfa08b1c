/* SPDX-License-Identifier: MIT */
/* The pool's pages: opened, closed, filled and checked. */
#include "kfence/object.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/sys.h"
#include "os/os.h"

struct kfence_pool kfence_pool;

enum {
	SPACE_SHARE = 256, /* the most that a pool takes of a limit on address space: 1/256 */
	PATIENCE_MS = 1000,
	RUN_SHIFT = 16,
	RUN_PAGES = (1 << RUN_SHIFT) - 1,
};

static bool is_cramped(size_t bytes)
{
	size_t space;

	return config.address_space == ADDRESS_SPACE_SMALL ||
	       os_calls.address_space_limit(&space) || bytes > space / SPACE_SHARE;
}

/* The bytes of the small slots with all their guards. */
static size_t small_bytes(void)
{
	return (2 * (size_t)kfence_pool.nr_small + 1) * kfence_pool.page_size;
}

/* From one large slot to the next one. */
static size_t large_stride(void)
{
	return KFENCE_LARGE_BYTES + kfence_pool.page_size;
}

static size_t pool_bytes(void)
{
	return small_bytes() + (kfence_pool.nr_objects - kfence_pool.nr_small) * large_stride();
}

/* Chooses how many slots there are, as the address space allows. False: none. */
static bool choose_slots(unsigned int nr_small)
{
	unsigned int nr_large = nr_small < KFENCE_LARGE_MAX ? nr_small : KFENCE_LARGE_MAX;
	struct kfence_pool *p = &kfence_pool;

	p->nr_small = nr_small;
	for (unsigned int n = nr_large;; n = 0) {
		p->nr_objects = nr_small + n;
		p->objects_bytes =
			align_up(p->nr_objects * sizeof(struct kfence_object), p->page_size);
		if (!is_cramped(pool_bytes() + p->objects_bytes))
			return true;
		if (!n)
			return false;
	}
}

bool kfence_pool_init(unsigned int nr_objects)
{
	struct kfence_pool *p = &kfence_pool;
	void *base, *objects;
	size_t len;

	p->page_size = os_page_size();
	if (!choose_slots(nr_objects) || os_map_metadata(p->objects_bytes, &objects))
		return false;
	len = pool_bytes();
	if (os_reserve(len, p->page_size, &base)) {
		os_release(objects, p->objects_bytes);
		return false;
	}
	os_calls.madvise(base, len, MADV_NOHUGEPAGE);
	p->base = base;
	p->objects = objects;
	atomic_store_explicit(&p->len, len, memory_order_release); /* J1 */
	return true;
}

struct kfence_object *kfence_object_at(const void *p)
{
	size_t offset = (size_t)((const char *)p - kfence_pool.base), large;

	debug_assert(offset < pool_bytes());
	if (offset < small_bytes()) {
		size_t page = offset / kfence_pool.page_size;

		return page % 2 ? &kfence_pool.objects[page / 2] : NULL;
	}
	large = offset - small_bytes();
	return large % large_stride() < KFENCE_LARGE_BYTES
		       ? &kfence_pool.objects[kfence_pool.nr_small + large / large_stride()]
		       : NULL;
}

struct kfence_pages kfence_slot(const struct kfence_object *o)
{
	size_t i = kfence_index(o), offset;

	if (kfence_is_large(o))
		offset = small_bytes() + (i - kfence_pool.nr_small) * large_stride();
	else
		offset = (2 * i + 1) * kfence_pool.page_size;
	return (struct kfence_pages){
		.start = kfence_pool.base + offset,
		.end = kfence_pool.base + offset +
		       (kfence_is_large(o) ? (size_t)KFENCE_LARGE_BYTES
					   : kfence_pool.page_size),
	};
}

/* The word has the first page, in the slot, and the number of pages, so that a handler that
 * reads it while another thread takes the object sees a run that is one. */
struct kfence_pages kfence_run(const struct kfence_object *o)
{
	uint32_t word = atomic_load_explicit(&o->run, memory_order_relaxed);
	struct kfence_pages slot = kfence_slot(o);
	char *start = slot.start + (word >> RUN_SHIFT) * kfence_pool.page_size;

	if (!kfence_is_large(o))
		return slot;
	return (struct kfence_pages){
		.start = start,
		.end = start + (word & RUN_PAGES) * kfence_pool.page_size,
	};
}

bool kfence_open_page(char *page)
{
	return !os_commit(page, kfence_pool.page_size);
}

static bool close_page(char *page)
{
	return !os_calls.mprotect(page, kfence_pool.page_size, PROT_NONE);
}

bool kfence_open(const struct kfence_object *o)
{
	struct kfence_pages run = kfence_run(o);

	return !os_commit(run.start, kfence_bytes(run));
}

void kfence_close(const struct kfence_object *o)
{
	struct kfence_pages slot = kfence_slot(o);
	char *from = slot.start - kfence_pool.page_size;
	size_t len = kfence_bytes(slot) + 2 * kfence_pool.page_size;

	if (!kfence_is_large(o)) {
		close_page(slot.start);
		return;
	}
	/* With the guards, since only the slot's owner knows what reports have opened. Memory
	 * that the program has locked goes, too, unless the system refuses a mapping: then the
	 * pages become a part of the mapping around them. */
	if (os_withdraw(from, len)) {
		os_calls.mprotect(from, len, PROT_NONE);
		os_purge(from, len);
	}
}

void kfence_close_opened(struct kfence_object *o)
{
	unsigned int opened = atomic_exchange_explicit(&o->opened, 0, memory_order_relaxed);
	struct kfence_pages slot = kfence_slot(o);

	if (kfence_is_large(o)) {
		if (opened)
			kfence_close(o);
		return;
	}
	if (opened & KFENCE_LEFT)
		close_page(slot.start - kfence_pool.page_size);
	if (opened & KFENCE_RIGHT)
		close_page(slot.end);
}

/* A freed object's pages. Another thread must not take the object while they are closed. */
static bool close_freed(struct kfence_object *o)
{
	uintptr_t freed = KFENCE_FREED;

	if (!atomic_compare_exchange_strong_explicit(
		    &o->state, &freed, lock_self() | KFENCE_FREEING, memory_order_acquire,
		    memory_order_relaxed))
		return false;
	kfence_close(o);
	atomic_store_explicit(&o->state, KFENCE_FREED, memory_order_release); /* E1 */
	return true;
}

/* The guards of a page lie where they lay, whoever has the object now. What was closed of a
 * large slot may be the next object's. */
bool kfence_close_late(struct kfence_object *o, enum kfence_opened which)
{
	if (which == KFENCE_LEFT && !kfence_is_large(o))
		return close_page(kfence_slot(o).start - kfence_pool.page_size);
	if (which == KFENCE_RIGHT && !kfence_is_large(o))
		return close_page(kfence_slot(o).end);
	for (unsigned int ms = 0; ms < PATIENCE_MS; ms++) {
		if (close_freed(o))
			return true;
		/* The thread that frees the object may have closed the page, or not yet. */
		if (kfence_state(o) != KFENCE_FREEING)
			return false;
		sys_pause_ms(1);
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

bool kfence_place(struct kfence_object *o, size_t size, size_t align, bool right)
{
	struct kfence_pages slot = kfence_slot(o);
	uintptr_t start = (uintptr_t)slot.start, end = (uintptr_t)slot.end, addr;
	size_t first, behind;

	debug_assert(size && is_pow2(align));
	if (size > end - start)
		return false;
	addr = right ? (end - size) & ~(align - 1) : align_up(start, align);
	if (addr < start || size > end - addr)
		return false;
	first = (addr - start) / kfence_pool.page_size;
	behind = align_up(addr + size - start, kfence_pool.page_size) / kfence_pool.page_size;
	o->addr = slot.start + (addr - start);
	o->size = size;
	atomic_store_explicit(&o->run, (uint32_t)(first << RUN_SHIFT | (behind - first)),
			      memory_order_relaxed);
	return true;
}

void kfence_fill(const struct kfence_object *o)
{
	struct kfence_pages run = kfence_run(o);

	fill(run.start, o->addr);
	fill(o->addr + o->size, run.end);
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
	struct kfence_pages run = kfence_run(o);
	const uint8_t *before = differs(run.start, o->addr);

	return before ? before : differs(o->addr + o->size, run.end);
}
