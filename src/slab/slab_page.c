/* SPDX-License-Identifier: MIT */
/*
 * One slab: a run of pages cut into objects of a cache.
 *
 *   | object 0 | object 1 | ... | object n-1 | rest  [bitmap] |
 *
 * Which objects are free is a bitmap outside of them: in the page entries, 256
 * bits each, where those suffice, else (objects below 16 bytes, or pages larger
 * than 4 KiB) at the end of the slab. So taking and returning objects touches
 * none of them, and a double free shows as a bit already set.
 */
#include <string.h>

#include "base/bits.h"
#include "slab/slab.h"

static unsigned int bitmap_words(const struct kmem_cache *s)
{
	return (s->objects + 63u) / 64;
}

static inline uint64_t *bitmap_word(const struct kmem_cache *s, struct page *page,
				    unsigned int w)
{
	if (unlikely(s->bitmap_in_slab)) {
		char *end = (char *)page_to_virt(page) + s->npages * page_size();

		return (uint64_t *)end - bitmap_words(s) + w;
	}
	return &page[w / PAGE_BITMAP_WORDS].bitmap[w % PAGE_BITMAP_WORDS];
}

static void set_all_free(const struct kmem_cache *s, struct page *page)
{
	unsigned int words = bitmap_words(s), rest = s->objects % 64;

	for (unsigned int w = 0; w < words; w++)
		*bitmap_word(s, page, w) = UINT64_MAX;
	if (rest)
		*bitmap_word(s, page, words - 1) = ((uint64_t)1 << rest) - 1;
}

struct page *slab_page_new(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	bool zeroed;
	struct page *page;
	char *base;

	/* Slabs are shared: what one request asks for says nothing about them. */
	flags &= ~(__GFP_DMA | __GFP_DMA32 | __GFP_COMP | __GFP_NOFAIL);
	page = page_alloc_run(node, flags, s->npages, &zeroed);

	if (!page)
		return NULL;
	page->cache = s;
	page->span = s->npages;
	page->inuse = 0;
	for (unsigned int i = 1; i < s->npages; i++) {
		page_set_type(&page[i], PAGE_SLAB_TAIL);
		page[i].span = (uint16_t)i;
	}
	page_set_type(page, PAGE_SLAB);
	set_all_free(s, page);
	base = page_to_virt(page);
	if (s->ctor)
		for (unsigned int i = 0; i < s->objects; i++)
			s->ctor(base + (size_t)i * s->size);
	page_set_array(page, s->npages, s->array_entry);
	return page;
}

void slab_page_free(struct kmem_cache *s, struct page *page)
{
	page_set_array(page, s->npages, PCPU_ENTRY_NONE);
	for (unsigned int i = 0; i < s->npages; i++)
		page_set_type(&page[i], PAGE_NONE);
	page_free_run(page, s->npages);
}

unsigned int __slab_page_take(struct kmem_cache *s, struct page *page, void **out,
			      unsigned int n)
{
	unsigned int words = bitmap_words(s), got = 0;
	char *base = page_to_virt(page);

	for (unsigned int w = 0; w < words && got < n; w++) {
		uint64_t *word = bitmap_word(s, page, w), bits = *word;

		while (bits && got < n) {
			unsigned int i = w * 64 + (unsigned int)__builtin_ctzll(bits);

			bits &= bits - 1;
			out[got++] = base + (size_t)i * s->size;
		}
		*word = bits;
	}
	page->inuse = (uint16_t)(page->inuse + got);
	return got;
}

const char *__slab_page_put(struct kmem_cache *s, struct page *page, const void *obj)
{
	uint32_t offset = (uint32_t)((const char *)obj - (char *)page_to_virt(page));
	unsigned int i = reciprocal_divide(offset, s->reciprocal);
	uint64_t *word, bit;

	if (unlikely(page_type(page) != PAGE_SLAB || page->cache != s))
		return "not an object of this cache";
	if (unlikely(i * s->size != offset || i >= s->objects))
		return "not the start of an object";
	word = bitmap_word(s, page, i / 64);
	bit = (uint64_t)1 << (i % 64);
	if (unlikely(*word & bit))
		return "double free";
	*word |= bit;
	page->inuse--;
	return NULL;
}
