/* SPDX-License-Identifier: MIT */
/*
 * What hardened caches (the tunable hardened) have in common: secrets, tables, random
 * numbers. debug/hard.c has their objects.
 */
#ifndef SLAB_SLAB_HARD_H
#define SLAB_SLAB_HARD_H

#include "slab/slab_types.h"

enum {
	SLAB_CANARY_BYTES = 8,	/* behind each object, at the end of its slot */
	SLAB_HARD_MIN = 16,	/* bytes of a slot */
	SLAB_HARD_ALIGN = 4096, /* of the tables */
	SLAB_HARD_BYTES = 16384,
};

/* Whether the process is hardened. Synchronization: slab_hard_init() writes it, once. */
extern atomic_bool slab_hardened;

/* What the fast paths of a hardened cache need. Objects of no bytes have no fast paths: `end`
 * is 0 then. */
struct slab_hard_class {
	struct kmem_cache *cache; /* NULL: there is no such class */
	void *ready, *waiting;	  /* the CPU's array, for objects of node 0; the quarantine */
	uint64_t reciprocal;	  /* of size */
	uint32_t size;		  /* bytes of a slot */
	uint32_t end;		  /* bytes of a slab in which objects lie */
};

/*
 * What an attacker must not change, or is not to know, in pages of its own. Synchronization:
 * written while the layers are initialised; read-only, also by the page tables, from
 * slab_hard_seal() on.
 */
struct slab_hard_tables {
	uint64_t secret[4];
	struct slab_hard_class by_mark[256]; /* by the class mark of a slab's pages */
	/* By size, the canary included, in steps of 8 and of 256 bytes. */
	const struct slab_hard_class *small[129], *large[256];
	struct kmem_cache *nothing; /* objects of no bytes */
	bool wide;		    /* the processor has AVX2 */
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

/* Whether memory is zero; both are multiples of 16. */
bool slab_hard_is_zero(const void *slot, size_t size);

/* Random numbers: any; one below @n. */
uint64_t slab_hard_draw(void);
unsigned int slab_hard_random(unsigned int n);
/* Brings @objs into random order. */
void slab_hard_shuffle(void **objs, unsigned int n);

#endif
