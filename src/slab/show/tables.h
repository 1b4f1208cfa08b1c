/* SPDX-License-Identifier: MIT */
/* The caches as tables; see tables.c. */
#ifndef SLAB_SHOW_TABLES_H
#define SLAB_SHOW_TABLES_H

struct emitter;
void slab_tables_emit(struct emitter *e);

#endif
