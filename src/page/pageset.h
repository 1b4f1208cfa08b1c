/* SPDX-License-Identifier: MIT */
/* Free runs per CPU, in front of a zone. */
#ifndef PAGE_PAGESET_H
#define PAGE_PAGESET_H

#include "base/bits.h"
#include "page/zone_types.h"

/*
 * The arrays of the only node's ZONE_NORMAL, by order; NULL if there are several nodes, or none
 * yet, so that the fast paths need no other test.
 * Synchronization: written once, by zone_pcp_update(), with release.
 */
extern _Atomic(void *) pageset_fast[PCP_ORDERS];

/* Whether a pageset has an array for runs of exactly this size. */
static always_inline bool pageset_has_order(size_t npages)
{
	return is_pow2(npages) && ilog2(npages) < PCP_ORDERS;
}

bool pageset_init(void);
/* Makes the limits complete (limits.h), and the pagesets smaller if the process has less than
 * it seemed to have. False: the files cannot be read now. */
bool page_know_limits(void);
/* Replaces the boot pageset by a real one, once. */
void zone_pcp_update(struct zone *z);
/* Takes a run out of this CPU's pageset; NULL: it has none. */
struct page *pageset_pop(struct zone *z, unsigned int order);
/* How many runs of @order move at once. */
unsigned int pageset_batch(const struct zone *z, unsigned int order);
/* Puts runs into this CPU's pageset, as far as there is room; the others into the zone. */
void pageset_fill(struct zone *z, unsigned int order, struct page **batch, unsigned int n);
void pageset_free(struct zone *z, struct page *page, unsigned int order);
/*
 * The stand-in of a node: the zone that served this CPU when zones of its own node could not.
 * It serves the next requests without a walk. After STAND_IN_PAGES, as many as a pageset keeps,
 * a walk looks whether a nearer zone has room again; whether the own node has, callers look
 * each time.
 */
enum { STAND_IN_PAGES = 64 };
/* @z served a request for @npages that no zone nearer to @own could serve. */
void pageset_set_stand_in(struct zone *own, const struct zone *z, size_t npages);
/* The zone that stands in for @own on this CPU, for a request of @npages. NULL: there is none.
 */
struct zone *pageset_stand_in(const struct zone *own, size_t npages);
/* Counts that the stand-in @z has served @npages. */
void pageset_stood_in(const struct zone *own, const struct zone *z, size_t npages);
/* Takes a run of PCP_RUN_MIN to PCP_RUN_MAX pages, if the one that this CPU freed last has
 * exactly @npages. NULL: it has not. */
struct page *pageset_pop_run(struct zone *z, size_t npages);
/* Takes a run of up to PCP_RUN_MAX pages that is aligned to 2^@align, if the one that this CPU
 * freed last in its list is so. NULL: it is not. */
struct page *pageset_pop_aligned(struct zone *z, size_t npages, unsigned int align);
void pageset_free_run(struct zone *z, struct page *page, size_t npages);
/* Puts the runs that CPUs hold of a zone (NULL: of all zones), and its spare runs, back into
 * it. Result: pages. */
size_t pageset_drain(struct zone *only);
/* Adds the pagesets of a CPU that goes to @d. (A drain of all CPUs gets none here: page_trim()
 * drains them, after caches have given back their slabs.) */
struct pcpu_drain;
void pagesets_list(struct pcpu_drain *d);
/* Puts dirty runs of this CPU's pageset into the zone. False: there were none. Lock held. */
bool __pageset_give_dirty(struct zone *z);
/* Pages that the zone's CPUs hold, and its spare runs. */
size_t pageset_pages(const struct zone *z);
size_t pageset_cpu_pages(const struct zone *z, unsigned int cpu);
struct verify;
void pageset_verify(struct zone *z, struct verify *v);
/* The number of pages that pagesets have handed out since the start. */
uint64_t pageset_nr_alloc(const struct zone *z);
void pageset_count(struct zone *z, enum numa_stat item, size_t npages);
uint64_t pageset_counted(const struct zone *z, enum numa_stat item);

#endif
