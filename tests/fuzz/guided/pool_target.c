/* SPDX-License-Identifier: MIT */
/* Bytes as the life of a qmempool and a mempool in front of one cache. */
#include "input.h"
#include "ukmem/mempool.h"
#include "ukmem/qmempool.h"

enum { ELEMENTS = 256, BULK = 64, SIZE = 200 };

static struct block elements[ELEMENTS];

static unsigned int free_slot(void)
{
	unsigned int i = 0;

	while (i < ELEMENTS && elements[i].p)
		i++;
	return i;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct kmem_cache *cache = kmem_cache_create("elements", SIZE, 0, 0, NULL);
	uint32_t local = 16U << input_below(&in, 5), shared = 32U << input_below(&in, 6);
	struct qmempool *pool = qmempool_create(
		local, shared, shared / (1U << input_below(&in, 4)), cache, GFP_KERNEL);
	int promised = (int)input_below(&in, 20);
	mempool_t *reserve = mempool_create_slab_pool(promised, cache);
	struct qmempool_stats stats;
	int64_t out = 0;

	if (!pool || !reserve)
		abort();
	while (input_more(&in)) {
		unsigned int slot = input_below(&in, ELEMENTS), way = input_below(&in, 8);
		void *burst[BULK], *p;
		unsigned int n;

		switch (way) {
		case 0: /* a burst out */
			n = 1 + input_below(&in, BULK);
			if (!qmempool_alloc_bulk(pool, GFP_KERNEL, n, burst))
				break;
			out += n;
			while (n && free_slot() < ELEMENTS) {
				n--;
				block_fill(&elements[free_slot()], burst[n], SIZE, n);
			}
			out -= n;
			if (n)
				qmempool_free_bulk(pool, n, burst);
			break;
		case 1: /* a burst back */
			n = 0;
			for (unsigned int i = slot; i < ELEMENTS && n < BULK; i++)
				if (elements[i].p) {
					block_check(&elements[i], SIZE);
					burst[n++] = elements[i].p;
					elements[i].p = NULL;
				}
			out -= n;
			if (n)
				qmempool_free_bulk(pool, n, burst);
			break;
		case 2: /* an element of the reserve, and back */
			p = mempool_alloc(reserve,
					  input_below(&in, 2) ? GFP_KERNEL : GFP_NOWAIT);
			if (p)
				memset(p, 1, SIZE);
			mempool_free(p, reserve);
			break;
		case 3:
			promised = (int)input_below(&in, 40);
			MUST(mempool_resize(reserve, promised) == 0);
			break;
		default:
			if (elements[slot].p) {
				block_check(&elements[slot], SIZE);
				qmempool_free(pool, elements[slot].p);
				elements[slot].p = NULL;
				out--;
			} else if ((p = qmempool_alloc(pool,
						       way % 2 ? GFP_KERNEL : GFP_ATOMIC))) {
				block_fill(&elements[slot], p, SIZE, slot);
				out++;
			}
		}
		qmempool_stats_read(pool, &stats);
		MUST(stats.outstanding == out);
		MUST(stats.shared <= shared);
	}
	for (unsigned int i = 0; i < ELEMENTS; i++)
		if (elements[i].p) {
			qmempool_free(pool, elements[i].p);
			elements[i].p = NULL;
		}
	mempool_destroy(reserve);
	qmempool_destroy(pool);
	MUST(kmem_cache_nr_allocated(cache) == 0);
	kmem_cache_destroy(cache);
	return 0;
}
