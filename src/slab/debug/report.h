/* SPDX-License-Identifier: MIT */
/* Findings, in words; see report.c. */
#ifndef SLAB_DEBUG_REPORT_H
#define SLAB_DEBUG_REPORT_H

#include "slab/debug/record.h"

struct slab_finding {
	struct kmem_cache *twin;
	void *obj;
	const char *what;
	long offset; /* of the first wrong byte, from the object; only if @wrong */
	uint8_t wanted;
	size_t wrong; /* bytes; 0: the finding is not about bytes */
	const void *caller;
};
/* Logs a finding. Returns if the tunable slab_debug_action says so, else aborts. */
void slab_report(const struct slab_finding *f);
/* Logs the first objects of @s that are in use. */
void slab_report_left(struct kmem_cache *s);
/* Records the caller, the time, this thread and CPU. */
void slab_track(struct slab_track *t, const void *caller);

#endif
