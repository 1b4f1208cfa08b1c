/* SPDX-License-Identifier: MIT */
#ifndef UNIT_SLAB_CREATE_FORMS_H
#define UNIT_SLAB_CREATE_FORMS_H

#include "ukmem/slab.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CREATE_FORMS = 9 };

/* Nine caches, each made in another way. Result: how often three arguments were evaluated. */
unsigned int create_in_c(struct kmem_cache **s);

#ifdef __cplusplus
}
#endif

#endif
