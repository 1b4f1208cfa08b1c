/* SPDX-License-Identifier: MIT */
/* Attributes of caches as text; see attr.c. */
#ifndef SLAB_SHOW_ATTR_H
#define SLAB_SHOW_ATTR_H

#include "slab/slab_types.h"

/* A text, cut to size bytes; len is the length that it has uncut. */
struct slab_text {
	char *buf;
	size_t size, len;
};

/* A line "<cache>/<attr>: value" for each attribute that can be shown, save the constructor:
 * the dynamic linker tells its name, and must not be asked under a lock. */
void slab_attrs_text(struct kmem_cache *s, struct slab_text *t);
/* Bytes that these lines and the constructor's name need. */
size_t slab_attrs_size(void);
/* The symbol of @ctor; nothing for NULL. The caller holds no lock. */
void slab_ctor_text(void (*ctor)(void *), struct slab_text *t);

/* As kmem_cache_attr_store(), of the attribute whose name is @len bytes long. */
int slab_attr_store(struct kmem_cache *s, const char *name, size_t len, const char *value);

/* One CACHE/ATTR=VALUE of the tunable slab_attr. */
struct slab_setting {
	const char *cache, *attr;
	size_t cache_len, attr_len;
	char value[32];
};

/* Reads such an item of @len bytes. False: it is none. */
bool slab_setting_split(const char *item, size_t len, struct slab_setting *set);
/* setting.c, the tunable slab_attr: warn of items that are no settings; set the attributes of a
 * new cache. */
void slab_attr_init(void);
/* Sets the attributes of a new cache as the tunable slab_attr says. */
void slab_attr_configure(struct kmem_cache *s);
/* Logs settings for which there is no cache; for callers that know that no more caches come. */
void slab_attr_check_names(void);

#endif
