/* SPDX-License-Identifier: MIT */
/*
 * What hardened caches (the tunable hardened) have in common: secrets, tables, random
 * numbers. debug/hard.c has their objects.
 */
#ifndef SLAB_SLAB_HARD_H
#define SLAB_SLAB_HARD_H

#include <string.h>

#include "slab/slab_types.h"

enum {
	SLAB_CANARY_BYTES = 8,	/* behind each object, at the end of its slot */
	SLAB_HARD_MIN = 16,	/* bytes of a slot */
	SLAB_HARD_ALIGN = 4096, /* of the tables */
	SLAB_HARD_BYTES = 5 * 4096,
	/* What is zero while an object is free: slots up to this size as a whole; of larger
	 * ones their first and last bytes, and a line in between that the secrets tell. */
	SLAB_HARD_WHOLE = 512,
	SLAB_HARD_FIRST = 128,
	SLAB_HARD_LAST = 64,
	SLAB_HARD_LINE = 64,
};

/* Whether the process is hardened. Synchronization: slab_hard_init() writes it, once. */
extern atomic_bool slab_hardened;

/* What the fast paths of a hardened cache need, a cache line. Objects of no bytes have no fast
 * paths: `starts` is 0 then. */
struct slab_hard_class {
	struct kmem_cache *cache; /* NULL: there is no such class */
	pcpu_entry_t ready;	  /* the CPU's array, for objects of node 0 */
	pcpu_entry_t waiting;	  /* the quarantine */
	uint32_t size;		  /* bytes of a slot */
	uint32_t starts;	  /* slab_hard_place() of objects is below it */
	uint32_t lines;		  /* between what is zero at both ends; 0: all of it is */
} cacheline_aligned;

/*
 * What an attacker must not change, or is not to know, in pages of its own. Synchronization:
 * written while the layers are initialised; read-only, also by the page tables, from
 * slab_hard_seal() on.
 */
struct slab_hard_tables {
	uint64_t secret[6];
	const volatile char *alone;	     /* alone_flag() */
	struct kmem_cache *nothing;	     /* objects of no bytes */
	bool whole;			     /* slots of all sizes are zero as a whole */
	bool wide;			     /* the processor has AVX2 */
	struct slab_hard_class by_mark[256]; /* by the class mark of a slab's pages */
	/* By size, the canary included, in steps of 8 and of 256 bytes. */
	const struct slab_hard_class *small[129], *large[256];
};

extern union slab_hard_sealed {
	struct slab_hard_tables tables;
	char pages[SLAB_HARD_BYTES];
} slab_hard_sealed;

static inline const struct slab_hard_tables *slab_hard(void)
{
	return &slab_hard_sealed.tables;
}

/* Decides whether the process is hardened, once. */
void slab_hard_init(void);
/* Makes the tables read-only. */
void slab_hard_seal(void);

/* Mixes @v with a secret. The result tells nothing of the value without the secret.
 */
static inline uint64_t slab_hard_mix(uint64_t v)
{
	v = (v ^ slab_hard()->secret[0]) * 0x9e3779b97f4a7c15u;
	v = (v ^ v >> 32 ^ slab_hard()->secret[1]) * 0xd6e8feb86659fd93u;
	return v ^ v >> 32;
}

typedef uint64_t slab_two_words __attribute__((vector_size(16), may_alias));

#ifdef __x86_64__
/* For processors with AVX2. */
#define slab_wide __attribute__((target("avx2")))
typedef long long slab_four_words
	__attribute__((vector_size(32), aligned(16), may_alias)); /* not aligned to its size */

/*
 * Whether a slot of more than 128 and up to 512 bytes is zero. One comparison leads to as many
 * loads as may be necessary, which overlap in the middle: where sizes change, the branches of a
 * loop would go wrong.
 */
static always_inline slab_wide bool slab_hard_is_zero_wide(const void *slot, size_t size)
{
	const slab_four_words *w = slot, *end = (const void *)((const char *)slot + size);
	slab_four_words any =
		((w[0] | w[1]) | (w[2] | w[3])) | ((end[-4] | end[-3]) | (end[-2] | end[-1]));

	if (size > 256)
		any |= ((w[4] | w[5]) | (w[6] | w[7])) |
		       ((end[-8] | end[-7]) | (end[-6] | end[-5]));
	return __builtin_ia32_ptestz256(any, any);
}

static always_inline slab_wide void slab_hard_zero_wide(void *slot, size_t size)
{
	slab_four_words *w = slot, *end = (void *)((char *)slot + size);
	const slab_four_words zero = { 0 };

	w[0] = w[1] = w[2] = w[3] = zero;
	end[-4] = end[-3] = end[-2] = end[-1] = zero;
	if (size > 256) {
		w[4] = w[5] = w[6] = w[7] = zero;
		end[-8] = end[-7] = end[-6] = end[-5] = zero;
	}
}
#else
#define slab_wide
static inline bool slab_hard_is_zero_wide(const void *slot, size_t size)
{
	(void)slot;
	return !size;
}

static inline void slab_hard_zero_wide(void *slot, size_t size)
{
	(void)slot;
	(void)size;
}
#endif

/* Whether memory is zero; both are multiples of 16. */
bool slab_hard_is_zero(const void *slot, size_t size);

/*
 * Where an address lies in its slab, in steps of 16 bytes, with the class mark in front of it:
 * one comparison tells whether objects of the class begin there and later. A rotation brings
 * the bits of an address that is not aligned to 16 bytes to the top. @place: page_place().
 */
static always_inline uint32_t slab_hard_place(unsigned int place, size_t offset)
{
	uint32_t at =
		place << page_shift() | (uint32_t)(offset & (((size_t)1 << page_shift()) - 1));

	return at >> 4 | at << 28;
}

/* The class of a hardened cache. */
static inline const struct slab_hard_class *slab_hard_class_of(const struct kmem_cache *s)
{
	return &slab_hard()->by_mark[s->class_mark];
}

/* How many lines of a slot lie between its ends; 0: it is zero as a whole while it is free. */
static inline uint32_t slab_hard_lines(uint32_t size)
{
	return size <= SLAB_HARD_WHOLE || slab_hard()->whole
		       ? 0
		       : (size - SLAB_HARD_FIRST - SLAB_HARD_LAST) / SLAB_HARD_LINE;
}

/*
 * Chooses one of @lines lines of the slot at @slot, by the secrets alone. The result is a
 * square of a multiple: with some secrets, multiples of addresses at equal distances fall on
 * few lines.
 */
static always_inline uint64_t slab_secret_place(const uint64_t *secret, uintptr_t slot,
						uint32_t lines)
{
	const uint64_t mixed = (slot ^ secret[0]) * secret[1];

	return (mixed * mixed >> 32) * lines >> 32;
}

/* The line that slab_secret_place() chooses. */
static always_inline slab_two_words *slab_secret_line(const struct slab_hard_class *c,
						      const void *slot)
{
	uint64_t i = slab_secret_place(slab_hard()->secret, (uintptr_t)slot, c->lines);

	return (void *)((uintptr_t)slot + SLAB_HARD_FIRST + i * SLAB_HARD_LINE);
}

static always_inline slab_two_words slab_any_of_four(const slab_two_words *w)
{
	return w[0] | w[1] | w[2] | w[3];
}

static always_inline void slab_zero_four(slab_two_words *w)
{
	w[0] = w[1] = w[2] = w[3] = (slab_two_words){ 0, 0 };
}

/* Whether what is zero in a free slot is zero. */
static always_inline bool slab_hard_is_wiped(const struct slab_hard_class *c, const void *slot)
{
	const slab_two_words *first = slot, *last, *line;
	slab_two_words any;

	if (unlikely(!c->lines))
		return slab_hard_is_zero(slot, c->size);
	last = (const void *)((const char *)slot + c->size - SLAB_HARD_LAST);
	line = slab_secret_line(c, slot);
	any = slab_any_of_four(first) | slab_any_of_four(first + 4) | slab_any_of_four(line) |
	      slab_any_of_four(last);
	return !(any[0] | any[1]);
}

/* Makes it so. */
static always_inline void slab_hard_wipe(const struct slab_hard_class *c, void *slot)
{
	slab_two_words *first = slot, *last, *line;

	if (unlikely(!c->lines)) {
		memset(slot, 0, c->size);
		return;
	}
	last = (void *)((char *)slot + c->size - SLAB_HARD_LAST);
	line = slab_secret_line(c, slot);
	slab_zero_four(first);
	slab_zero_four(first + 4);
	slab_zero_four(line);
	slab_zero_four(last);
}

/* Random numbers: any; one below @n. */
uint64_t slab_hard_draw(void);
unsigned int slab_hard_random(unsigned int n);
/*
 * Writes to free objects of @s, without changing them: a byte at both ends, and in the line
 * between them that will be looked at, or on each page. Memory that nobody has touched yet is
 * then there at once. If a look touched it first, the system would map its page of zeros, and
 * the write behind it would replace that, for which the system interrupts all CPUs that run the
 * process.
 */
void slab_hard_touch(const struct kmem_cache *s, void **objs, unsigned int n);
/* Brings @objs into random order. */
void slab_hard_shuffle(void **objs, unsigned int n);

#endif
