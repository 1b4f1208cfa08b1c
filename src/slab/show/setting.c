/* SPDX-License-Identifier: MIT */
/* The tunable slab_attr: attributes that caches get when they are made. No lock. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "slab/show/attr.h"

bool slab_setting_split(const char *item, size_t len, struct slab_setting *set)
{
	const char *eq = text_find_in(item, '=', len), *slash;
	size_t value_len;

	slash = eq ? text_find_last_in(item, '/', (size_t)(eq - item)) : NULL;
	if (!slash || slash == item)
		return false;
	value_len = len - (size_t)(eq + 1 - item);
	if (value_len >= sizeof(set->value))
		return false;
	*set = (struct slab_setting){ .cache = item,
				      .attr = slash + 1,
				      .cache_len = (size_t)(slash - item),
				      .attr_len = (size_t)(eq - slash - 1) };
	memcpy(set->value, eq + 1, value_len);
	return true;
}

static bool is_of(const struct slab_setting *set, const struct kmem_cache *s)
{
	size_t len = min_size(set->cache_len, sizeof(s->name) - 1); /* names are cut, too */

	return strlen(s->name) == len && !memcmp(s->name, set->cache, len);
}

static void apply(struct kmem_cache *s, const struct slab_setting *set)
{
	int error = slab_attr_store(s, set->attr, set->attr_len, set->value);

	if (error)
		log_warn("slab_attr: %s/%.*s=%s: %s", s->name, (int)set->attr_len, set->attr,
			 set->value,
			 error == -ENOENT   ? "there is no such attribute"
			 : error == -EACCES ? "it cannot be set"
			 : error == -ENOMEM ? "no memory for all of it"
					    : "bad value");
}

static const char *next_item(const char *item)
{
	item += text_until(item, ";");
	return item + (*item == ';');
}

void slab_attr_init(void)
{
	struct slab_setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item)) {
		size_t len = text_until(item, ";");

		if (len && !slab_setting_split(item, len, &set))
			log_warn("slab_attr: '%.*s' is not CACHE/ATTR=VALUE", (int)len, item);
	}
}

void slab_attr_configure(struct kmem_cache *s)
{
	struct slab_setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item))
		if (slab_setting_split(item, text_until(item, ";"), &set) && is_of(&set, s))
			apply(s, &set);
}

void slab_attr_check_names(void)
{
	char name[SLAB_NAME_SIZE];
	struct slab_setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item)) {
		if (!slab_setting_split(item, text_until(item, ";"), &set))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)set.cache_len, set.cache);
		if (!kmem_cache_find(name))
			log_warn("slab_attr: there is no cache '%s'", name);
	}
}
