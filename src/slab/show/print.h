/* SPDX-License-Identifier: MIT */
/* The form of /proc/slabinfo, for print.c and for tools, which read other processes. C and C++.
 */
#ifndef SLAB_SHOW_PRINT_H
#define SLAB_SHOW_PRINT_H

#include <stdint.h>

struct emitter;

struct slabinfo_line {
	const char *name;
	unsigned int size, objects, npages; /* of an object; of a slab */
	uint64_t inuse, all_objects, slabs, shared;
};

void slabinfo_emit_head(struct emitter *e);
void slabinfo_emit_line(struct emitter *e, const struct slabinfo_line *l);

#endif
