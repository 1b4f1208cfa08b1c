/* SPDX-License-Identifier: MIT */
/* Attributes of caches as text; see attr.c. */
#ifndef SLAB_SHOW_ATTR_H
#define SLAB_SHOW_ATTR_H

#include "slab/slab_types.h"

/* What fits of a text whose whole length is len. */
struct slab_text {
	char *buf;
	size_t size, len;
};

/* A line "<cache>/<attr>: value" for each that can be shown, save the constructor: it is
 * named by the dynamic linker, which may not be asked under a lock. */
void slab_attrs_text(struct kmem_cache *s, struct slab_text *t);
/* Room for these, and for the constructor's name. */
size_t slab_attrs_size(void);
/* Its symbol; nothing for NULL. No lock is held. */
void slab_ctor_text(void (*ctor)(void *), struct slab_text *t);

/* As kmem_cache_attr_store(), of the attribute whose name is @len bytes long. */
int slab_attr_store(struct kmem_cache *s, const char *name, size_t len, const char *value);

/* setting.c, the tunable slab_attr: complain about what is no setting; set those of a new
 * cache. */
void slab_attr_init(void);
void slab_attr_configure(struct kmem_cache *s);
/* Complain about those of caches that do not exist; for who knows that no more will come. */
void slab_attr_check_names(void);

#endif
