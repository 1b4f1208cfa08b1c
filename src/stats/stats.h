/* SPDX-License-Identifier: MIT */
/*
 * Where the layers above put what they know: each registers a source once, and
 * the whole is the sources in order of registration, lowest layer first.
 */
#ifndef STATS_STATS_H
#define STATS_STATS_H

#include "base/verify.h"
#include "stats/emit.h"
#include "ukmem/stats.h"

struct stats_source {
	void (*gauges)(struct ukmem_gauges *g);	  /* add to the gauges; or NULL */
	void (*resident)(struct ukmem_gauges *g); /* those that the system is asked for */
	void (*emit)(struct emitter *e);	  /* write objects and tables; or NULL */
	size_t (*trim)(void);			  /* give memory back, bytes; or NULL */
	void (*verify)(struct verify *v);	  /* look at its invariants; or NULL */
};

/* Not thread-safe: from a layer's initialisation, which runs once. */
void stats_register(struct stats_source *source);

/* As ukmem_gauges_read(), but for `resident` and `metadata`: makes no system call. */
void stats_gauges(struct ukmem_gauges *g);

#endif
