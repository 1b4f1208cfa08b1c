/* SPDX-License-Identifier: MIT */
/* Bytes as calls of kmalloc and its relatives, beside what each block must hold. */
#include "input.h"
#include "ukmem/slab.h"
#include "ukmem/stats.h"

enum { BLOCKS = 64 };

static struct block blocks[BLOCKS];

static const gfp_t kinds[] = { GFP_KERNEL,
			       GFP_NOWAIT,
			       GFP_ATOMIC,
			       GFP_KERNEL | __GFP_ZERO,
			       GFP_KERNEL | __GFP_DMA32,
			       GFP_NOWAIT | __GFP_ZERO };

static void check_any(const void *p, size_t size)
{
	MUST(ksize(p) >= size);
	MUST((uintptr_t)p % (size >= 16 ? 16 : 8) == 0);
}

static void check_new(const void *p, size_t size, bool zeroed)
{
	check_any(p, size);
	if (size && !(size & (size - 1)) && size <= 4096)
		MUST((uintptr_t)p % size == 0);
	if (zeroed)
		for (size_t i = 0; i < size; i++)
			MUST(((const unsigned char *)p)[i] == 0);
}

static void allocate(struct input *in, unsigned int slot)
{
	size_t size = input_size(in, 20) + 1;
	gfp_t gfp = kinds[input_below(in, sizeof(kinds) / sizeof(kinds[0]))];
	unsigned int way = input_below(in, 7);
	bool zeroed = (gfp & __GFP_ZERO) || way == 1 || way == 3;
	void *p = NULL;

	switch (way) {
	case 0:
		p = kmalloc(size, gfp);
		break;
	case 1:
		p = kzalloc(size, gfp);
		break;
	case 2:
		size = (size / 7 + 1) * 7;
		p = kmalloc_array(size / 7, 7, gfp);
		break;
	case 3:
		p = kcalloc(1, size, gfp);
		break;
	case 4:
		p = kmalloc_node(size, gfp, 0);
		break;
	case 5:
		p = vmalloc(size);
		zeroed = false;
		break;
	case 6:
		p = kmemdup(in->at, (size_t)(in->end - in->at), gfp);
		size = (size_t)(in->end - in->at);
		zeroed = false;
		if (!size)
			return;
		break;
	}
	if (!p)
		return;
	check_new(p, size, zeroed);
	block_fill(&blocks[slot], p, size, slot + (unsigned int)size);
}

static void resize(struct input *in, struct block *b)
{
	size_t size = input_size(in, 20) + 1, kept = b->size < size ? b->size : size;
	void *p = krealloc(b->p, size, GFP_KERNEL);

	if (!p)
		return;
	b->p = p;
	check_any(p, size); /* a block that shrank in place keeps its alignment */
	block_check(b, kept);
	block_fill(b, p, size, b->mark + 1U);
}

static void release(struct input *in, struct block *b)
{
	block_check(b, b->size);
	switch (input_below(in, 3)) {
	case 0:
		kfree(b->p);
		break;
	case 1:
		kfree_sensitive(b->p);
		break;
	case 2:
		kfree_bulk(1, (void **)&b->p);
		break;
	}
	b->p = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct ukmem_gauges g;

	while (input_more(&in)) {
		unsigned int slot = input_below(&in, BLOCKS);

		if (!blocks[slot].p)
			allocate(&in, slot);
		else if (input_below(&in, 4) == 0)
			resize(&in, &blocks[slot]);
		else
			release(&in, &blocks[slot]);
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			release(&in, &blocks[i]);
	if (input_seldom()) {
		ukmem_gauges_read(&g);
		MUST(g.allocated == 0);
	}
	return 0;
}
