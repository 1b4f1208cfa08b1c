/* SPDX-License-Identifier: MIT */
/* Bytes as requests for pages of all orders, zones and kinds. */
#include "input.h"
#include "ukmem/page_alloc.h"
#include "ukmem/stats.h"

enum { RUNS = 48 };

static struct {
	struct page *page;
	unsigned int order;
	unsigned long mark;
} runs[RUNS];

static unsigned long *word_of(unsigned int i, size_t page)
{
	return (unsigned long *)((char *)page_address(runs[i].page) + page * ukmem_page_size());
}

static void take(struct input *in, unsigned int i)
{
	static const gfp_t kinds[] = { GFP_KERNEL,
				       GFP_NOWAIT,
				       GFP_ATOMIC,
				       GFP_KERNEL | __GFP_DMA32,
				       GFP_KERNEL | __GFP_ZERO,
				       GFP_KERNEL | __GFP_COMP };
	gfp_t gfp = kinds[input_below(in, sizeof(kinds) / sizeof(kinds[0]))];
	unsigned int order = input_below(in, 10);
	struct page *page = alloc_pages(gfp, order);
	uintptr_t addr = (uintptr_t)(page ? page_address(page) : NULL);

	if (!page)
		return;
	MUST(addr % (ukmem_page_size() << order) == 0);
	MUST(virt_to_page((void *)addr) == page);
	MUST(!(gfp & __GFP_DMA32) || addr >> 32 == 0);
	runs[i].page = page;
	runs[i].order = order;
	runs[i].mark = addr ^ i;
	for (size_t n = 0; n < (size_t)1 << order; n++) {
		MUST(!(gfp & __GFP_ZERO) || *word_of(i, n) == 0);
		*word_of(i, n) = runs[i].mark;
	}
	if ((gfp & __GFP_COMP) && order) {
		MUST(compound_order(page) == order);
		MUST(compound_head(virt_to_page(word_of(i, ((size_t)1 << order) - 1))) == page);
	}
}

static void give(unsigned int i)
{
	for (size_t n = 0; n < (size_t)1 << runs[i].order; n++)
		MUST(*word_of(i, n) == runs[i].mark);
	__free_pages(runs[i].page, runs[i].order);
	runs[i].page = NULL;
}

static void bulk(struct input *in)
{
	struct page *pages[64] = { 0 };
	unsigned long n = alloc_pages_bulk(GFP_KERNEL, 1 + input_below(in, 64), pages);

	while (n)
		__free_pages(pages[--n], 0);
}

static void exact(struct input *in)
{
	size_t size = input_size(in, 20) + 1;
	char *p = alloc_pages_exact(size, GFP_KERNEL);

	if (!p)
		return;
	p[0] = p[size - 1] = 1;
	free_pages_exact(p, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct ukmem_gauges before, after;

	free_page(__get_free_page(GFP_KERNEL));
	ukmem_trim();
	ukmem_gauges_read(&before);
	while (input_more(&in)) {
		unsigned int i = input_below(&in, RUNS);

		switch (input_below(&in, 16)) {
		case 0:
			bulk(&in);
			break;
		case 1:
			exact(&in);
			break;
		case 2:
			ukmem_trim();
			break;
		default:
			if (runs[i].page)
				give(i);
			else
				take(&in, i);
		}
	}
	for (unsigned int i = 0; i < RUNS; i++)
		if (runs[i].page)
			give(i);
	ukmem_trim();
	ukmem_gauges_read(&after);
	MUST(after.active == before.active && after.retained == 0);
	if (input_seldom())
		MUST(ukmem_verify(stderr) == 0);
	return 0;
}
