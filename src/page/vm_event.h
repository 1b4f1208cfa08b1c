/* SPDX-License-Identifier: MIT */
/* Events of the page layer, counted per CPU. As in /proc/vmstat an increment may be lost. */
#ifndef PAGE_VM_EVENT_H
#define PAGE_VM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "percpu/percpu.h"

/* X(enumerator, name as shown) */
#define VM_EVENTS(X)                                                                           \
	X(PGALLOC_FAIL, "pgalloc_fail")	      /* requests that returned NULL */                \
	X(ALLOCSTALL, "allocstall")	      /* requests that had to reclaim */               \
	X(PGREFILL, "pgrefill")		      /* pages a reclaim took from pagesets */         \
	X(PGSTEAL, "pgsteal")		      /* pages a reclaim made free */                  \
	X(SHRINK_SCANNED, "slabs_scanned")    /* objects shrinkers were asked to free */       \
	X(PGDEFERRED, "pgfree_deferred")      /* frees that found a zone's lock taken */       \
	X(PGASIDE, "pgalloc_aside")	      /* requests served by pages aside */             \
	X(PGSPARE, "pgalloc_spare")	      /* requests served without a zone's lock */      \
	X(PGPIN_FAIL, "pgpin_fail")	      /* pages that could not be locked */             \
	X(ZONE_RECLAIM, "zone_reclaim")	      /* reclaims before going to another node */      \
	X(ZLC_SKIP, "zlc_skip")		      /* zones skipped by a zonelist cache */          \
	X(ZLC_ZAP, "zlc_zap")		      /* times a zonelist cache was cleared */         \
	X(ZLC_SECOND_SCAN, "zlc_second_scan") /* scans repeated without it */

enum vm_event {
#define VM_EVENT_ENUM(item, name) item,
	VM_EVENTS(VM_EVENT_ENUM)
#undef VM_EVENT_ENUM
		NR_VM_EVENTS,
};

struct vm_events {
	uint64_t event[NR_VM_EVENTS];
	/* No event: how often page_decay() was called. All requests for pages write it, so it
	 * must not be one number for all CPUs. */
	uint64_t decay_looks;
};

extern struct vm_events *vm_events; /* per CPU; NULL before vm_events_init() */

static inline void count_vm_events(enum vm_event item, uint64_t n)
{
	raw_cpu_add(vm_events->event[item], n);
}

static inline void count_vm_event(enum vm_event item)
{
	count_vm_events(item, 1);
}

bool vm_events_init(void);
/* The sum over all CPUs. */
uint64_t vm_event_sum(enum vm_event item);
extern const char *const vm_event_names[NR_VM_EVENTS];

#endif
