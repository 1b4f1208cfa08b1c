/* SPDX-License-Identifier: MIT */
/* One slab; see slab_page.c. */
#ifndef SLAB_SLAB_PAGE_H
#define SLAB_SLAB_PAGE_H

#include "base/assert.h"
#include "slab/slab_types.h"

/*
 * A slab's state, one word:
 *
 *   31  30  29             15  14              0
 *   | where | whole words     | words with any   |   of the bitmap, both + SLAB_STATE_BIAS
 *
 * avail counts the words of the bitmap with a free object, whole those with no object in
 * use. They follow the words' own changes a little later, so they may be ahead or behind,
 * and below zero, while somebody is between the two.
 */
enum slab_where {
	SLAB_FULL,     /* on no list; or somebody has just freed into it and will list it */
	SLAB_WITH_CPU, /* on a CPU's list, or in the hands of a thread that took it */
	SLAB_ON_NODE,  /* on the node's list */
};

#define SLAB_STATE_BIAS 8192u
#define SLAB_AVAIL_ONE 1u
#define SLAB_WHOLE_ONE (1u << 15)
#define SLAB_WHERE_SHIFT 30
#define SLAB_STATE_MASK (SLAB_WHOLE_ONE - 1)

static inline int slab_state_avail(uint32_t state)
{
	return (int)(state & SLAB_STATE_MASK) - (int)SLAB_STATE_BIAS;
}

static inline int slab_state_whole(uint32_t state)
{
	return (int)(state >> 15 & SLAB_STATE_MASK) - (int)SLAB_STATE_BIAS;
}

static inline enum slab_where slab_state_where(uint32_t state)
{
	debug_assert(state >> SLAB_WHERE_SHIFT <= SLAB_ON_NODE);
	return (enum slab_where)(state >> SLAB_WHERE_SHIFT);
}

static inline uint32_t slab_state(struct page *page)
{
	return atomic_load_explicit(&page->state, memory_order_acquire);
}

/* How this slab is cut. */
static inline const struct slab_layout *slab_layout(const struct kmem_cache *s,
						    const struct page *page)
{
	debug_assert(page->span == s->layout.npages || page->span == s->small.npages);
	return page->span == s->layout.npages ? &s->layout : &s->small;
}

static inline unsigned int slab_words(const struct slab_layout *l)
{
	return (l->objects + 63u) / 64;
}

static inline struct kmem_cache *slab_page_cache(struct page *page)
{
	return __atomic_load_n(&page->cache, __ATOMIC_RELAXED);
}

/* Whether no object of a slab is out of it, nor anybody about to say so. */
static inline bool slab_state_empty(const struct slab_layout *l, uint32_t state)
{
	int words = (int)slab_words(l);

	return slab_state_avail(state) == words && slab_state_whole(state) == words;
}

/* The word of a slab's bitmap. */
_Atomic uint64_t *slab_bitmap_word(const struct slab_layout *l, struct page *page,
				   unsigned int w);
/* Of the 64 objects of word @w, those that exist. */
uint64_t slab_word_whole(const struct slab_layout *l, unsigned int w);

/* A new slab, SLAB_WITH_CPU, of which @got of @n objects are taken out at once. */
struct page *slab_page_new(struct kmem_cache *s, unsigned int node, gfp_t flags, void **out,
			   unsigned int n, unsigned int *got);
/* The slab is empty and on no list. Waits for nothing. */
void slab_page_free(struct kmem_cache *s, struct page *page);

/* Take up to @n free objects; the number taken. For whoever has the slab or its list. */
unsigned int slab_page_take(struct kmem_cache *s, struct page *page, void **out,
			    unsigned int n);
/* Whether there is none left: then it is SLAB_FULL, and no longer the caller's. The caller has
 * taken it from its list before. */
bool slab_page_leave_if_full(struct page *page);
/* Objects that are in it. */
size_t slab_page_free_objects(const struct kmem_cache *s, struct page *page);
/* The state as of the bitmap, which nobody changes meanwhile. Result: that. */
uint32_t slab_page_settle(const struct kmem_cache *s, struct page *page);
/* It changes hands. Result: its state then. */
uint32_t slab_page_move(struct page *page, enum slab_where from, enum slab_where to);

/* What a free made of a slab. */
enum slab_change {
	SLAB_UNCHANGED,
	SLAB_NO_LONGER_FULL, /* it is the caller's now, to be put onto a list */
	SLAB_EMPTY_ON_NODE,
	SLAB_OTHERS_FROZEN, /* as unchanged: with a CPU */
};
/* Objects of word @w back. *@twice: those of @mask that were free already. */
enum slab_change slab_page_put(struct kmem_cache *s, struct page *page, unsigned int w,
			       uint64_t mask, uint64_t *twice);

/*
 * Which object of the slab at @page is at @obj, by arithmetic alone: @page is slab_head() of
 * @obj's page, and may be no slab of @s, nor @obj an object: slab_page_wrong() tells. An
 * address at which no object begins has SLAB_NO_OBJECT.
 */
#define SLAB_NO_OBJECT UINT32_MAX

static inline unsigned int slab_page_index(const struct kmem_cache *s, struct page *page,
					   const void *obj)
{
	uint32_t offset = (uint32_t)((uintptr_t)obj - (uintptr_t)page_to_virt(page)) -
			  (uint32_t)s->pad_left;
	uint32_t index = reciprocal_divide(offset, s->reciprocal);

	return likely(index * s->size == offset) ? index : SLAB_NO_OBJECT;
}

/* NULL, or what is wrong with an object of that index to be freed. */
static inline const char *slab_page_wrong(const struct kmem_cache *s, struct page *page,
					  unsigned int index)
{
	if (unlikely(page_type(page) != PAGE_SLAB || slab_page_cache(page) != s))
		return "not an object of this cache";
	if (unlikely(index >= slab_layout(s, page)->objects))
		return "not the start of an object";
	return NULL;
}

/* Whether @page, which may be anything by now and in the middle of a change, is the head of a
 * slab of @s. */
bool slab_page_is_of(struct page *page, const struct kmem_cache *s);
/* Whether the array map and the places of its pages say what they are to say of a slab of @s.
 */
bool slab_page_is_mapped(const struct kmem_cache *s, struct page *page);

/* The head of the slab that @page is one of. */
static inline struct page *slab_head(struct page *page)
{
	return page - page_place_to_head(page_place(page_to_pfn(page)));
}

/* The cache in one of whose slabs @obj lies, or NULL. */
struct kmem_cache *slab_cache_of(const void *obj);

#endif
