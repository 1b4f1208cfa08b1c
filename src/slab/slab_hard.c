/* SPDX-License-Identifier: MIT */
/* Secrets and random numbers; see slab_hard.h. */
#include "slab/slab_hard.h"

#include <sys/mman.h>

#include "base/config.h"
#include "os/os.h"

atomic_bool slab_hardened;
union slab_hard_sealed slab_hard_sealed __attribute__((aligned(SLAB_HARD_ALIGN)))
untouched; /* in other processes */

_Static_assert(sizeof(struct slab_hard_tables) <= SLAB_HARD_BYTES, "whole pages");

void slab_hard_init(void)
{
	struct slab_hard_tables *t = &slab_hard_sealed.tables;

	if (!config.hardened || config.passthrough || slab_hardened)
		return;
	for (unsigned int i = 0; i < ARRAY_SIZE(t->secret); i++)
		t->secret[i] = os_random();
	t->secret[3] |= 1; /* canaries are multiples of it */
	slab_hardened = true;
}

void slab_hard_seal(void)
{
	if (slab_hardened && page_size() <= SLAB_HARD_ALIGN)
		os_calls.mprotect(&slab_hard_sealed, sizeof(slab_hard_sealed), PROT_READ);
}

uint64_t slab_hard_draw(void)
{
	/* Threads may draw the same number; each mixes another address into it. */
	static atomic_uint_least64_t drawn;
	uint64_t i = atomic_load_explicit(&drawn, memory_order_relaxed);

	atomic_store_explicit(&drawn, i + 1, memory_order_relaxed);
	return slab_hard_mix(i ^ (uintptr_t)&i << 16);
}

unsigned int slab_hard_random(unsigned int n)
{
	debug_assert(n);
	return (unsigned int)((slab_hard_draw() >> 32) * n >> 32);
}

void slab_hard_shuffle(void **objs, unsigned int n)
{
	uint64_t r = slab_hard_draw();

	for (unsigned int i = n; i > 1; i--) {
		unsigned int other = (unsigned int)((r >> 32) * i >> 32);
		void *obj = objs[other];

		objs[other] = objs[i - 1];
		objs[i - 1] = obj;
		r = r * 6364136223846793005u + 1442695040888963407u;
	}
}
