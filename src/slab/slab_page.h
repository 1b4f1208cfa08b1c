/* SPDX-License-Identifier: MIT */
/* One slab; see slab_page.c. */
#ifndef SLAB_SLAB_PAGE_H
#define SLAB_SLAB_PAGE_H

#include "base/alone.h"
#include "base/assert.h"
#include "slab/slab_types.h"

/*
 * A slab's state, one word:
 *
 *   31    28  27             14  13              0
 *   | where  | whole           | avail            |   both counts + SLAB_STATE_BIAS
 *
 * where is of enum slab_where; on the node's list, SLAB_ON_NODE + the shard whose list it is.
 * avail counts the words of the bitmap with a free object, whole the words with no object in
 * use. A thread changes a word first and the counts afterwards; in between the counts may be
 * too high, too low, or below zero.
 */
enum slab_where {
	SLAB_FULL, /* on no list; a thread that frees into it will list it */
	/* On a CPU's list, in stock, on its way to the node's list, or in a thread's hand. */
	SLAB_WITH_CPU,
	SLAB_ON_NODE, /* on the list of one of the node's shards */
};

#define SLAB_STATE_BIAS 4096u
#define SLAB_AVAIL_ONE 1u
#define SLAB_WHOLE_SHIFT 14
#define SLAB_WHOLE_ONE (1u << SLAB_WHOLE_SHIFT)
#define SLAB_WHERE_SHIFT 28
#define SLAB_STATE_MASK (SLAB_WHOLE_ONE - 1)

_Static_assert(SLAB_ON_NODE + SLAB_SHARDS_MAX <= 1u << (32 - SLAB_WHERE_SHIFT),
	       "the state has room for each shard");

static inline int slab_state_avail(uint32_t state)
{
	return (int)(state & SLAB_STATE_MASK) - (int)SLAB_STATE_BIAS;
}

static inline int slab_state_whole(uint32_t state)
{
	return (int)(state >> SLAB_WHOLE_SHIFT & SLAB_STATE_MASK) - (int)SLAB_STATE_BIAS;
}

/* SLAB_FULL, SLAB_WITH_CPU, or SLAB_ON_NODE + the shard. */
static inline unsigned int slab_state_place(uint32_t state)
{
	return state >> SLAB_WHERE_SHIFT;
}

static inline enum slab_where slab_state_where(uint32_t state)
{
	return (enum slab_where)min_uint(slab_state_place(state), SLAB_ON_NODE);
}

/* The shard whose list the slab is on, if it is SLAB_ON_NODE. */
static inline unsigned int slab_state_shard(uint32_t state)
{
	debug_assert(slab_state_where(state) == SLAB_ON_NODE);
	return slab_state_place(state) - SLAB_ON_NODE;
}

static inline uint32_t slab_state(struct page *page)
{
	return atomic_load_explicit(&page->state, memory_order_acquire);
}

/* The layout of slabs of @span pages. */
static always_inline const struct slab_layout *slab_layout_of(const struct kmem_cache *s,
							      unsigned int span)
{
	const struct slab_layout *other = span == s->large.npages ? &s->large : &s->small;

	return span == s->layout.npages ? &s->layout : other;
}

/* The layout of this slab; any layout of @s, if @page is no slab of it any more. */
static inline const struct slab_layout *slab_layout(const struct kmem_cache *s,
						    const struct page *page)
{
	return slab_layout_of(s, page->span);
}

static inline unsigned int slab_words(const struct slab_layout *l)
{
	return (l->objects + 63u) / 64;
}

static inline struct kmem_cache *slab_page_cache(struct page *page)
{
	return __atomic_load_n(&page->cache, __ATOMIC_RELAXED);
}

/* Whether all objects are in the slab, and no thread is about to change the state. */
static inline bool slab_state_empty(const struct slab_layout *l, uint32_t state)
{
	int words = (int)slab_words(l);

	return slab_state_avail(state) == words && slab_state_whole(state) == words;
}

/* Word @w of a bitmap that lies in the page entries of its slab. */
static always_inline _Atomic uint64_t *slab_entry_word(struct page *page, unsigned int w)
{
	/* Entries are words in a row, of which the second half of each are bits. */
	_Static_assert(
		sizeof(struct page) == (size_t)2 * PAGE_BITMAP_WORDS * sizeof(uint64_t) &&
			offsetof(struct page, bitmap) == PAGE_BITMAP_WORDS * sizeof(uint64_t),
		"as computed here");

	return (_Atomic uint64_t *)(void *)page + PAGE_BITMAP_WORDS + w +
	       (w & ~(PAGE_BITMAP_WORDS - 1u));
}

/* Word @w of a slab's bitmap. */
static always_inline _Atomic uint64_t *slab_bitmap_word(const struct slab_layout *l,
							struct page *page, unsigned int w)
{
	debug_assert(w < slab_words(l));
	if (unlikely(l->bitmap_in_slab)) {
		char *end = (char *)page_to_virt(page) + l->npages * page_size();

		return (_Atomic uint64_t *)(void *)end - slab_words(l) + w;
	}
	return slab_entry_word(page, w);
}

/* The bits of word @w that stand for an object. */
static always_inline uint64_t slab_word_whole(const struct slab_layout *l, unsigned int w)
{
	unsigned int rest = l->objects - 64 * w;

	debug_assert(64 * w < l->objects);
	return rest >= 64 ? UINT64_MAX : ((uint64_t)1 << rest) - 1;
}

/* A new slab, SLAB_WITH_CPU. *@got of its objects, up to @n, are taken out, into @out. */
struct page *slab_page_new(struct kmem_cache *s, unsigned int node, gfp_t flags, void **out,
			   unsigned int n, unsigned int *got);
/*
 * Makes SLAB_ROW slabs of the large layout, one behind the other, if such slabs are due on
 * @node. row[0] is the one at the highest address. All are SLAB_WITH_CPU and empty, and the
 * caller has them. False: there is no row.
 */
bool slab_page_new_row(struct kmem_cache *s, unsigned int node, gfp_t flags, struct page **row);
/* Frees a slab that is empty and on no list. Waits for nothing. */
void slab_page_free(struct kmem_cache *s, struct page *page);
/* Takes up to @n free objects. The caller has the slab or its list. Result: how many. */
unsigned int slab_page_take(struct kmem_cache *s, struct page *page, void **out,
			    unsigned int n);
/* The caller has taken the slab from its list. If no object is left, makes the slab SLAB_FULL,
 * and the caller no longer has it. Result: whether that happened. */
bool slab_page_leave_if_full(struct page *page);
/* The number of free objects in the slab. */
size_t slab_page_free_objects(const struct kmem_cache *s, struct page *page);
/* Computes the state from the bitmap, which no other thread may change. Result: the state. */
uint32_t slab_page_settle(const struct kmem_cache *s, struct page *page);
/* Changes the place in the state from @from to @to (slab_state_place()). Result: the new state.
 */
uint32_t slab_page_move(struct page *page, unsigned int from, unsigned int to);

/* The change that a free made to its slab. */
enum slab_change {
	SLAB_UNCHANGED,
	SLAB_NO_LONGER_FULL, /* the caller has the slab now, and must list it */
	SLAB_EMPTY_ON_NODE,  /* the slab is on a shard's list, and is empty now */
	SLAB_OTHERS_FROZEN,  /* nothing to do: a CPU has the slab */
};
/*
 * Freeing objects, in two steps. slab_word_put() sets the bits @mask of a word. Result: the
 * word before. If slab_word_turns(), slab_page_changed() follows, with the change to the state
 * (slab_state_change()), unless that is 0. Otherwise another thread may free the slab from
 * here. The caller is in a section (base/alone.h).
 */
static always_inline uint64_t slab_word_put(_Atomic uint64_t *word, uint64_t mask)
{
	return alone_fetch_or(word, mask, memory_order_acq_rel); /* P1, P2 */
}

/* The same of one bit, with @alone of alone_flag(). */
static always_inline uint64_t slab_bit_put(const volatile char *alone, _Atomic uint64_t *word,
					   uint64_t bit)
{
	return alone_fetch_or_bit(alone, word, bit, memory_order_acq_rel); /* P1, P2 */
}

/* Whether a word's change may change the state: nothing was free in it, or it is whole. A whole
 * word has no bit above a clear one; some others have none, either. */
static always_inline bool slab_word_turns(uint64_t old, uint64_t now)
{
	return unlikely(!old) || unlikely(!(now & (now + 1)));
}

/* The change of the state that a thread makes after it has turned word @w from @old to @now. */
static inline uint32_t slab_state_change(const struct slab_layout *l, unsigned int w,
					 uint64_t old, uint64_t now)
{
	uint64_t all = slab_word_whole(l, w);

	return (old ? 0 : SLAB_AVAIL_ONE) + (now == all && old != all ? SLAB_WHOLE_ONE : 0);
}

/* *@state: the new state. */
enum slab_change slab_page_changed(const struct slab_layout *l, struct page *page,
				   uint32_t change, uint32_t *state);

/*
 * The index of @obj in the slab @page, by arithmetic alone; more than any slab has objects:
 * none begins there. @page is slab_head() of @obj's page. It need not be a slab of @s, nor @obj
 * an object: the caller asks slab_page_wrong().
 */
static always_inline unsigned int slab_index(const struct kmem_cache *s, uint32_t offset)
{
	return exact_divide_32(offset - (uint32_t)s->pad_left, (uint32_t)s->inverse, s->shift);
}

static inline unsigned int slab_page_index(const struct kmem_cache *s, struct page *page,
					   const void *obj)
{
	return slab_index(s, (uint32_t)((uintptr_t)obj - (uintptr_t)page_to_virt(page)));
}

/* Why the object @index of slab @page cannot be freed; NULL: it can. */
static inline const char *slab_page_wrong(const struct kmem_cache *s, struct page *page,
					  unsigned int index)
{
	if (unlikely(page_type(page) != PAGE_SLAB || slab_page_cache(page) != s))
		return "not an object of this cache";
	if (unlikely(index >= slab_layout(s, page)->objects))
		return "not the start of an object";
	return NULL;
}

/* Whether @page is the head of a slab of @s. The page may be anything, and may be in the middle
 * of a change. */
bool slab_page_is_of(struct page *page, const struct kmem_cache *s);
/* Whether the array map and the places of its pages describe @page as a slab of @s. */
bool slab_page_is_mapped(const struct kmem_cache *s, struct page *page);

/* The head of the slab that @page is part of. */
static inline struct page *slab_head(struct page *page)
{
	return page - page_place_to_head(page_place(page_to_pfn(page)));
}

/* How many of objs[0..n), from the first on, are of the same node. */
static inline size_t slab_same_node(void *const *objs, size_t n)
{
	size_t i = 1;

	if (likely(page_window.nr_nodes == 1))
		return n;
	while (i < n && page_node(page_of(objs[i])) == page_node(page_of(objs[0])))
		i++;
	return i;
}

/* The cache in one of whose slabs @obj lies, or NULL. */
struct kmem_cache *slab_cache_of(const void *obj);

#endif
