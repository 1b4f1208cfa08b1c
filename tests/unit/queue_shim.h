/* SPDX-License-Identifier: MIT */
/* Halves of a multi function that reserves. */
#ifndef UNIT_QUEUE_SHIM_H
#define UNIT_QUEUE_SHIM_H

#include <stdbool.h>

#include "ukmem/alf_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first one, for one element; the other one, with its result. One at a time. */
bool shim_queue_reserve(struct alf_queue *q, struct alf_queue_side *side);
bool shim_queue_publish(struct alf_queue_side *side);
/* In the child of a fork: what the first thread there does to @side's words, up to the middle.
 */
void shim_queue_inherit_half(struct alf_queue_side *side);
/* From now on this thread cannot run sections. False: it can all the same. */
bool shim_queue_without_sections(void);

#ifdef __cplusplus
}
#endif

#endif
