/* SPDX-License-Identifier: MIT */
/* Bytes as calls of malloc and its family as the drop-in has them, beside what each block must
 * hold. */
#include <errno.h>
#include <malloc.h>
#include <unistd.h>

#include "input.h"
#include "ukmem/stats.h"

void cfree(void *p);
void *pvalloc(size_t size);
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);
size_t malloc_object_size(const void *p);

enum { BLOCKS = 64, UNTOUCHED = 12345 };

/* A block is filled to the size that the program asked for, or to all that is usable. */
static struct {
	struct block b;
	size_t asked, align;
} blocks[BLOCKS];

static unsigned char one;

/* A call that succeeds leaves errno alone. */
#define QUIETLY(call)                                                                          \
	do {                                                                                   \
		errno = UNTOUCHED;                                                             \
		call;                                                                          \
		MUST(errno == UNTOUCHED);                                                      \
	} while (0)

static void take(unsigned int slot, void *p, size_t size, size_t align, bool zeroed)
{
	const unsigned char *bytes = p;

	if (!p) {
		MUST(errno == ENOMEM);
		return;
	}
	MUST(errno == UNTOUCHED);
	MUST((uintptr_t)p % (align > 16 ? align : size > 8 ? 16 : 8) == 0);
	MUST(malloc_usable_size(p) >= size);
	for (size_t i = 0; zeroed && i < size; i++)
		MUST(bytes[i] == 0);
	block_fill(&blocks[slot].b, p, size, slot + (unsigned int)size);
	blocks[slot].asked = size;
	blocks[slot].align = align;
}

static void allocate(struct input *in, unsigned int slot)
{
	unsigned int way = input_below(in, 9);
	size_t size = input_size(in, 20), align = (size_t)1 << input_below(in, 15);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), unit = input_below(in, 40) + 1U;
	void *p = &one;
	int error;

	errno = UNTOUCHED;
	switch (way) {
	case 0:
	case 1:
		take(slot, malloc(size), size, 0, false);
		break;
	case 2:
		take(slot, calloc(size / unit, unit), size / unit * unit, 0, true);
		break;
	case 3:
		take(slot, realloc(NULL, size), size, 0, false);
		break;
	case 4:
		take(slot, reallocarray(NULL, size / unit, unit), size / unit * unit, 0, false);
		break;
	case 5:
		error = posix_memalign(&p, align, size);
		MUST(errno == UNTOUCHED);
		MUST(!error || p == &one);
		MUST((error == EINVAL) == (align < sizeof(void *)));
		if (!error)
			take(slot, p, size, align, false);
		break;
	case 6:
		take(slot, aligned_alloc(align, size), size, align, false);
		break;
	case 7: /* rounds up to a power of two */
		take(slot, memalign(align - align / 4, size), size, align, false);
		break;
	case 8:
		if (align % 2)
			take(slot, valloc(size), size, page, false);
		else
			take(slot, pvalloc(size), size ? (size + page - 1) / page * page : page,
			     page, false);
		break;
	}
}

static void resize(struct input *in, unsigned int slot)
{
	struct block *b = &blocks[slot].b, old = *b;
	size_t size = input_size(in, 20), unit = input_below(in, 40) + 1U, kept;
	bool array = input_below(in, 2);
	void *p;

	size = array ? size / unit * unit : size;
	errno = UNTOUCHED;
	p = array ? reallocarray(b->p, size / unit, unit) : realloc(b->p, size);
	if (!size) {
		MUST(!p && errno == UNTOUCHED);
		b->p = NULL;
		return;
	}
	if (!p) {
		MUST(errno == ENOMEM);
		return;
	}
	MUST(errno == UNTOUCHED);
	MUST((uintptr_t)p % (size > 8 ? 16 : 8) == 0);
	MUST(malloc_usable_size(p) >= size);
	kept = old.size < size ? old.size : size;
	old.p = p;
	block_check(&old, kept);
	block_fill(b, p, size, old.mark + 1U);
	blocks[slot].asked = size;
	blocks[slot].align = 0;
}

/* A program may use all that malloc_usable_size() says. */
static void use_all(struct block *b)
{
	size_t usable = malloc_usable_size(b->p);

	MUST(usable >= b->size);
	block_check(b, b->size);
	block_fill(b, b->p, usable, b->mark + 1U);
}

/* Requests that cannot be served leave everything as it is. */
static void ask_too_much(struct input *in, struct block *b)
{
	/* The compiler warns of what it can see. */
	volatile size_t most = SIZE_MAX, half_of_bits = (size_t)1 << 32;
	size_t size = most - input_size(in, 16), half = half_of_bits;
	void *p = NULL;

	errno = 0;
	switch (input_below(in, 8)) {
	case 0:
		p = malloc(size);
		break;
	case 1:
		p = calloc(half, half);
		break;
	case 2:
		p = calloc(1, size);
		break;
	case 3:
		p = realloc(b->p, size);
		break;
	case 4:
		p = reallocarray(b->p, half + 1, half);
		break;
	case 5:
		p = memalign(4096, size);
		break;
	case 6:
		p = pvalloc(size);
		break;
	case 7:
		p = &one;
		MUST(posix_memalign(&p, 64, size) == ENOMEM && p == &one);
		p = NULL;
		errno = ENOMEM;
		break;
	}
	MUST(!p && errno == ENOMEM);
	if (b->p)
		block_check(b, b->size);
}

static void release(struct input *in, unsigned int slot)
{
	struct block *b = &blocks[slot].b;

	block_check(b, b->size);
	switch (input_below(in, 4)) {
	case 0:
		QUIETLY(free(b->p));
		break;
	case 1:
		QUIETLY(cfree(b->p));
		break;
	case 2:
		if (blocks[slot].align)
			QUIETLY(free_aligned_sized(b->p, blocks[slot].align,
						   blocks[slot].asked));
		else
			QUIETLY(free_sized(b->p, blocks[slot].asked));
		break;
	case 3:
		MUST(!realloc(b->p, 0));
		break;
	}
	b->p = NULL;
}

/* From any byte in use, as far as the block goes at least. */
static void look_inside(struct input *in, const struct block *b)
{
	size_t offset = b->size ? (input_byte(in) * 257U) % b->size : 0;

	MUST(malloc_object_size(b->p + offset) >= b->size - offset);
	if (input_below(in, 4) == 0)
		QUIETLY(free(NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct ukmem_gauges g;

	while (input_more(&in)) {
		unsigned int slot = input_below(&in, BLOCKS), what = input_below(&in, 8);

		if (what == 0)
			ask_too_much(&in, &blocks[slot].b);
		else if (!blocks[slot].b.p)
			allocate(&in, slot);
		else if (what < 4)
			resize(&in, slot);
		else if (what == 4)
			use_all(&blocks[slot].b);
		else if (what == 5)
			look_inside(&in, &blocks[slot].b);
		else
			release(&in, slot);
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (blocks[i].b.p)
			release(&in, i);
	if (input_seldom()) {
		ukmem_gauges_read(&g);
		MUST(g.allocated == 0);
	}
	return 0;
}
