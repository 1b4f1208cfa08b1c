/* SPDX-License-Identifier: MIT */
/*
 * The tunable slab_debug: LETTERS[=NAME+NAME...], as the kernel's parameter, but with "+"
 * between the names, since commas separate keys. A name may end in "*". No names: all
 * caches; no letters: FZPU; "-": nothing. Blocks of whole pages have a name, too.
 */
#include "slab/debug/tunable.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"

/* Synchronization: written once, by parse(). */
static slab_flags_t flags;
static const char *names; /* NULL: all */

static slab_flags_t flag_of(char letter)
{
	switch (letter | 0x20) {
	case 'f':
		return SLAB_CONSISTENCY_CHECKS;
	case 'z':
		return SLAB_RED_ZONE;
	case 'p':
		return SLAB_POISON;
	case 'u':
		return SLAB_STORE_USER;
	default:
		return 0;
	}
}

char slab_debug_parse(const char *text, slab_flags_t *out, const char **out_names)
{
	size_t letters = text_until(text, "=");
	char unknown = '\0';

	*out = 0;
	*out_names = NULL;
	if (!*text || text_is(text, "-"))
		return unknown;
	for (size_t i = 0; i < letters; i++) {
		*out |= flag_of(text[i]);
		if (!flag_of(text[i]) && !unknown)
			unknown = text[i];
	}
	if (!letters)
		*out = SLAB_DEBUG_FLAGS;
	if (text[letters])
		*out_names = text + letters + 1;
	return unknown;
}

static bool parse(void)
{
	char unknown = slab_debug_parse(config.slab_debug, &flags, &names);

	if (unknown)
		log_warn("slab_debug: unknown letter '%c' (F, Z, P, U are known)", unknown);
	return true;
}

static bool matches(const char *pattern, size_t len, const char *name)
{
	if (len && pattern[len - 1] == '*')
		return text_same(pattern, name, len - 1);
	return strlen(name) == len && !memcmp(pattern, name, len);
}

bool slab_debug_has(const char *list, const char *name)
{
	if (!list)
		return true;
	for (const char *p = list;; p++) {
		size_t len = text_until(p, "+");

		if (matches(p, len, name))
			return true;
		p += len;
		if (!*p)
			return false;
	}
}

slab_flags_t slab_debug_of_name(const char *name)
{
	static struct once parsed = ONCE_INITIALIZER;

	once(&parsed, parse);
	return flags && slab_debug_has(names, name) ? flags : 0;
}

void slab_debug_check_names(void)
{
	char name[SLAB_NAME_SIZE];

	for (const char *p = names; p; p = *p ? p + 1 : NULL) {
		size_t len = text_until(p, "+");

		snprintf(name, sizeof(name), "%.*s", (int)len, p);
		p += len;
		if ((!len || p[-1] != '*') && !text_is(name, SLAB_DEBUG_BLOCKS) &&
		    !kmem_cache_find(name))
			log_warn("slab_debug: there is no cache '%s'", name);
	}
}
