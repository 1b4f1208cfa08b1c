/* SPDX-License-Identifier: MIT */
/* Findings, in words; see report.c. */
#ifndef SLAB_DEBUG_REPORT_H
#define SLAB_DEBUG_REPORT_H

#include "slab/debug/record.h"

/* Bytes of an object, or around it, that are not what they should be. */
struct slab_wrong {
	size_t count; /* 0: the finding is not about bytes */
	long offset;  /* of the first one, from the object */
	uint8_t wanted;
};

struct slab_finding {
	struct kmem_cache *twin;
	void *obj;
	const char *what;
	struct slab_wrong wrong;
	const char *detail; /* a line more, or NULL */
	const void *caller;
};
/* Logs a finding. Returns if the tunable slab_debug_action says so, else aborts. */
void slab_report(const struct slab_finding *f);
/* Logs the first objects of @s that are in use. */
void slab_report_left(struct kmem_cache *s);
/* Records the caller, the time, this thread and CPU. */
void slab_track(struct slab_track *t, const void *caller);

/* Parts of a report, also of one about something else: wrong bytes with their surroundings, but
 * none before @low or from @high on; a track, if there is one; where it was found. */
void slab_report_bytes(const void *obj, const struct slab_wrong *w, long low, long high);
void slab_report_track(const char *what, const struct slab_track *t);
void slab_report_found(const void *caller);

#endif
