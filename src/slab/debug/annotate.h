/* SPDX-License-Identifier: MIT */
/* Reports to AddressSanitizer and valgrind; see annotate.c. */
#ifndef SLAB_DEBUG_ANNOTATE_H
#define SLAB_DEBUG_ANNOTATE_H

#include "slab/debug/record.h"

/* Whether the process runs on one of these tools. */
bool slab_annotate_wanted(void);
/* The library begins, or ends, to access an object, its guards and its record. */
void slab_annotate_open(struct kmem_cache *twin, void *obj);
void slab_annotate_close(struct kmem_cache *twin, void *obj);
void slab_annotate_alloc(struct kmem_cache *twin, void *obj);
void slab_annotate_free(struct kmem_cache *twin, void *obj);
/* Memory of a slab goes back to the page allocator, which reports nothing to the tools. */
void slab_annotate_forget(void *mem, size_t len);

#endif
