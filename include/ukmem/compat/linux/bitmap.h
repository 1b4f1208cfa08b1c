/* SPDX-License-Identifier: MIT */
/*
 * <linux/bitmap.h> - sets of bits in arrays of longs, and allocating them. Bits of the last
 * word that are beyond @nbits are no part of the set: a result does not depend on them.
 */
#ifndef UKMEM_COMPAT_LINUX_BITMAP_H
#define UKMEM_COMPAT_LINUX_BITMAP_H

#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/string.h>
#include <linux/types.h>
#include <ukmem/kmalloc.h>

#define DECLARE_BITMAP(name, nbits) unsigned long name[BITS_TO_LONGS(nbits)]
#define bitmap_size(nbits) (BITS_TO_LONGS(nbits) * sizeof(unsigned long))
/* Of the word that has bit @start or the last of @nbits: the bits from there on, up to there.
 */
#define BITMAP_FIRST_WORD_MASK(start) (~0ul << ((start) % BITS_PER_LONG))
#define BITMAP_LAST_WORD_MASK(nbits)                                                           \
	(~0ul >> ((BITS_PER_LONG - (nbits) % BITS_PER_LONG) % BITS_PER_LONG))

/* Allocated sets. NULL: no memory. */
static inline unsigned long *bitmap_alloc(unsigned int nbits, gfp_t flags)
{
	return (unsigned long *)kmalloc_array(BITS_TO_LONGS(nbits), sizeof(unsigned long),
					      flags);
}

static inline unsigned long *bitmap_zalloc(unsigned int nbits, gfp_t flags)
{
	return bitmap_alloc(nbits, flags | __GFP_ZERO);
}

static inline unsigned long *bitmap_alloc_node(unsigned int nbits, gfp_t flags, int node)
{
	return (unsigned long *)kmalloc_array_node(BITS_TO_LONGS(nbits), sizeof(unsigned long),
						   flags, node);
}

static inline unsigned long *bitmap_zalloc_node(unsigned int nbits, gfp_t flags, int node)
{
	return bitmap_alloc_node(nbits, flags | __GFP_ZERO, node);
}

static inline void bitmap_free(const unsigned long *set)
{
	kfree(set);
}

DEFINE_FREE(bitmap, unsigned long *, if (_T) bitmap_free(_T))

/* The bits of word @i that belong to a set of @nbits. */
static inline unsigned long ukmem_bitmap_mask(size_t i, unsigned int nbits)
{
	return (i + 1) * BITS_PER_LONG <= nbits ? ~0ul : BITMAP_LAST_WORD_MASK(nbits);
}

static inline void bitmap_zero(unsigned long *to, unsigned int nbits)
{
	memset(to, 0, bitmap_size(nbits));
}

static inline void bitmap_fill(unsigned long *to, unsigned int nbits)
{
	memset(to, 0xff, bitmap_size(nbits));
}

static inline void bitmap_copy(unsigned long *to, const unsigned long *from, unsigned int nbits)
{
	memcpy(to, from, bitmap_size(nbits));
}

/* Sets or clears @n bits from @start on. */
static inline void bitmap_set(unsigned long *set, unsigned int start, unsigned int n)
{
	for (; n && start % BITS_PER_LONG; start++, n--)
		__set_bit(start, set);
	for (; n >= BITS_PER_LONG; start += BITS_PER_LONG, n -= BITS_PER_LONG)
		set[BIT_WORD(start)] = ~0ul;
	for (; n; start++, n--)
		__set_bit(start, set);
}

static inline void bitmap_clear(unsigned long *set, unsigned int start, unsigned int n)
{
	for (; n && start % BITS_PER_LONG; start++, n--)
		__clear_bit(start, set);
	for (; n >= BITS_PER_LONG; start += BITS_PER_LONG, n -= BITS_PER_LONG)
		set[BIT_WORD(start)] = 0;
	for (; n; start++, n--)
		__clear_bit(start, set);
}

static inline bool bitmap_empty(const unsigned long *set, unsigned int nbits)
{
	return find_first_bit(set, nbits) == nbits;
}

static inline bool bitmap_full(const unsigned long *set, unsigned int nbits)
{
	return find_first_zero_bit(set, nbits) == nbits;
}

static inline unsigned int bitmap_weight(const unsigned long *set, unsigned int nbits)
{
	unsigned int n = 0;

	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		n += (unsigned int)__builtin_popcountl(set[i] & ukmem_bitmap_mask(i, nbits));
	return n;
}

static inline bool bitmap_equal(const unsigned long *a, const unsigned long *b,
				unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		if ((a[i] ^ b[i]) & ukmem_bitmap_mask(i, nbits))
			return false;
	return true;
}

static inline bool bitmap_intersects(const unsigned long *a, const unsigned long *b,
				     unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		if (a[i] & b[i] & ukmem_bitmap_mask(i, nbits))
			return true;
	return false;
}

static inline bool bitmap_subset(const unsigned long *a, const unsigned long *of,
				 unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		if (a[i] & ~of[i] & ukmem_bitmap_mask(i, nbits))
			return false;
	return true;
}

static inline void bitmap_or(unsigned long *to, const unsigned long *a, const unsigned long *b,
			     unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		to[i] = a[i] | b[i];
}

static inline void bitmap_xor(unsigned long *to, const unsigned long *a, const unsigned long *b,
			      unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		to[i] = a[i] ^ b[i];
}

static inline void bitmap_complement(unsigned long *to, const unsigned long *from,
				     unsigned int nbits)
{
	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		to[i] = ~from[i];
}

/* Results: whether any bit of @to is set. */
static inline bool bitmap_and(unsigned long *to, const unsigned long *a, const unsigned long *b,
			      unsigned int nbits)
{
	unsigned long any = 0;

	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		any |= (to[i] = a[i] & b[i] & ukmem_bitmap_mask(i, nbits));
	return any != 0;
}

static inline bool bitmap_andnot(unsigned long *to, const unsigned long *a,
				 const unsigned long *b, unsigned int nbits)
{
	unsigned long any = 0;

	for (size_t i = 0; i < BITS_TO_LONGS(nbits); i++)
		any |= (to[i] = a[i] & ~b[i] & ukmem_bitmap_mask(i, nbits));
	return any != 0;
}

#endif
