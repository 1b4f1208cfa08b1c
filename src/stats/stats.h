/* SPDX-License-Identifier: MIT */
/* Gauges and tables of all layers (layer/layer.h), rendered by emit.c. */
#ifndef STATS_STATS_H
#define STATS_STATS_H

#include "stats/emit.h"
#include "ukmem/stats.h"

/* As ukmem_gauges_read(), without `resident` and `metadata`; makes no system call. */
void stats_gauges(struct ukmem_gauges *g);
/* As ukmem_stats_print(), for a function that takes the text. */
void stats_print_to(emit_function *take, void *to, enum ukmem_stats_format format);
void stats_emit_gauges(struct emitter *e, const struct ukmem_gauges *g);

#endif
