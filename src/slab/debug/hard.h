/* SPDX-License-Identifier: MIT */
/* Objects of hardened caches; see hard.c. */
#ifndef SLAB_DEBUG_HARD_H
#define SLAB_DEBUG_HARD_H

#include "base/alone.h"
#include "percpu/array.h"
#include "slab/slab_hard.h"

/* Gives a new cache its quarantine; false without memory. The second undoes it. */
bool slab_hard_prepare(struct kmem_cache *s);
void slab_hard_release(struct kmem_cache *s);
/* Enters a class's cache into the table, before the table is sealed. */
void slab_hard_enter(struct kmem_cache *s);

/* An object of @s; NULL: no memory. It is zero, as those of slab_hard_pop(). */
void *slab_hard_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags);
/* Whether an object of @s begins at @obj and is in use; reports it if not. */
bool slab_hard_in_use(struct kmem_cache *s, const void *obj, const char *func,
		      const void *caller);
/* Whether the slot of a free object shows that the program has it. */
bool slab_hard_has_canary(const struct kmem_cache *s, void *obj);

/*
 * The fast paths, in the callers' code. They end where the program has what it asked for, or in
 * a call of one of these functions, so that they need no stack. A section that fails leaves the
 * rest to them.
 */
/* An object of class @c at hand; NULL: there is none. */
void *slab_hard_pop(const struct slab_hard_class *c, unsigned int node);
/* Looks whether a free object was written to, and gives it to the program. */
void *slab_hard_hand_out(const struct slab_hard_class *c, void *obj);
/* Zeroes an object whose canary was taken away, and puts it into the quarantine. */
void slab_hard_put(const struct slab_hard_class *c, void *obj);
/* The second step of that. */
void slab_hard_put_wiped(const struct slab_hard_class *c, void *obj);
/* Frees an object of a hardened cache, or reports why it is none. False, and nothing was done:
 * the page of @obj is of no such cache. @func, @caller: for the report. */
bool slab_hard_free(void *obj, const char *func, const void *caller);

enum {
	SLAB_HARD_NEAR = 512, /* bytes that loops of the fast paths zero, and look at */
	SLAB_HARD_HERE = 128, /* in the caller's code, without a loop */
};

/* Whether functions for processors with AVX2 zero a slot, and look at it. */
static always_inline bool slab_hard_is_wide(const struct slab_hard_class *c)
{
	return c->size > SLAB_HARD_HERE && c->size <= SLAB_HARD_NEAR && slab_hard()->wide;
}

static always_inline _Atomic uint64_t *slab_canary_place(size_t size, void *obj)
{
	return (_Atomic uint64_t *)(void *)((char *)obj + size - SLAB_CANARY_BYTES);
}

/*
 * Its first byte in memory is zero, so that a string that reaches it ends there. With one
 * multiplication, the difference of the canaries of two addresses would be a secret times a
 * power of two, and those of a page would tell all others.
 */
static always_inline uint64_t slab_canary(const void *obj)
{
	const uint64_t *secret = slab_hard()->secret;
	uint64_t v = ((uintptr_t)obj ^ secret[2]) * secret[3];

	v = (v ^ v >> 32 ^ secret[4]) * secret[5];
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v & ~(uint64_t)0xff : v >> 8;
}

static always_inline void slab_canary_set(void *obj, size_t size)
{
	atomic_store_explicit(slab_canary_place(size, obj), slab_canary(obj),
			      memory_order_relaxed);
}

/* The last 16 bytes of a slot, whose size is a multiple of that. */
static always_inline slab_two_words *slab_hard_last(const void *obj, size_t size)
{
	return (void *)((uintptr_t)obj + size - sizeof(slab_two_words));
}

/*
 * Whether a free object is zero; false also above SLAB_HARD_NEAR: slab_hard_hand_out() looks.
 * Both ends first, which meet or overlap in small ones, then what is left in the middle.
 */
static always_inline bool slab_hard_is_near_zero(const void *obj, size_t size)
{
	const slab_two_words *first = obj, *last = slab_hard_last(obj, size);
	slab_two_words any;

	if (unlikely(size > SLAB_HARD_NEAR))
		return false;
	any = *first | *last;
	if (size > 32)
		any |= first[1] | last[-1];
	if (size > 64)
		any |= first[2] | last[-2] | first[3] | last[-3];
	if (size > SLAB_HARD_HERE)
		for (first += 4, last -= 4; first <= last; first += 2, last -= 2)
			any |= first[0] | first[1] | last[-1] | last[0];
	return !(any[0] | any[1]);
}

static always_inline void slab_hard_zero_near(void *obj, size_t size)
{
	slab_two_words *first = obj, *last = slab_hard_last(obj, size);
	const slab_two_words zero = { 0, 0 };

	*first = *last = zero;
	if (size > 32)
		first[1] = last[-1] = zero;
	if (size > 64)
		first[2] = last[-2] = first[3] = last[-3] = zero;
	if (size > SLAB_HARD_HERE)
		for (first += 4, last -= 4; first <= last; first += 2, last -= 2)
			first[0] = first[1] = last[-1] = last[0] = zero;
}

/*
 * Takes the canary of an object away. False: it is none, or has none, or its class is not
 * @only, unless that is NULL. *@class: its class.
 *
 * An address where no object begins has no canary either, since that depends on the address. So
 * the place in the slab is looked at only to see that a word lies there.
 *
 * @offset: of the object in the window, whose page has an entry.
 */
static always_inline bool slab_canary_take_at(void *obj, size_t offset,
					      const struct slab_hard_class *only,
					      const struct slab_hard_class **class)
{
	const struct slab_hard_class *c;
	unsigned int place;

	place = page_place(offset >> page_shift());
	c = &slab_hard()->by_mark[page_place_mark(place)];
	__asm__("" : "+r"(c)); /* The compiler keeps it, too. */
	*class = c;
	if (unlikely(slab_hard_place(place, offset) >= c->starts) ||
	    unlikely(only && only != c))
		return false;
	return likely(alone_replace(slab_hard()->alone, slab_canary_place(c->size, obj),
				    slab_canary(obj), 0));
}

/* The same of any address, for the fast paths. False, and *@class is NULL: the page has no
 * entry that they find; slab_hard_free() may find one. */
static always_inline bool slab_canary_take(void *obj, const struct slab_hard_class *only,
					   const struct slab_hard_class **class)
{
	size_t offset = (uintptr_t)obj - page_window.base;

	*class = NULL;
	return likely(page_window_readable(offset)) &&
	       slab_canary_take_at(obj, offset, only, class);
}

#endif
