/* SPDX-License-Identifier: MIT */
/* Verification of zones; see verify.c. */
#ifndef PAGE_VERIFY_H
#define PAGE_VERIFY_H

#include "base/verify.h"

struct zone;

/* Verifies one zone. Takes its lock. */
void zone_verify(struct zone *z, struct verify *v);
/* Verifies all zones; does nothing before the layer is initialised. */
void page_verify(struct verify *v);

#endif
