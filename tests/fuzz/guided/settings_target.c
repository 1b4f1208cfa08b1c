/* SPDX-License-Identifier: MIT */
/* Bytes as values of the tunables slab_debug and slab_attr, which have a form of their own, and
 * as the name of a cache: a zero byte ends each. */
#include "input.h"
#include "slab/debug/tunable.h"
#include "slab/show/attr.h"

/* By another way than the parser's: the list is cut into pieces. */
static bool is_listed(const char *list, const char *name)
{
	char *copy = strdup(list), *rest = copy, *piece;
	bool found = false;

	while ((piece = strsep(&rest, "+"))) {
		size_t len = strlen(piece);

		found |= len && piece[len - 1] == '*' ? !strncmp(piece, name, len - 1)
						      : !strcmp(piece, name);
	}
	free(copy);
	return found;
}

static void debug(const char *value, const char *name)
{
	size_t letters = strcspn(value, "=");
	slab_flags_t flags = 1;
	const char *names = name;
	char unknown = slab_debug_parse(value, &flags, &names);

	if (!*value || !strcmp(value, "-")) {
		MUST(!flags && !names && !unknown);
		return;
	}
	MUST(!(flags & ~(slab_flags_t)SLAB_DEBUG_FLAGS));
	MUST(letters || flags == SLAB_DEBUG_FLAGS);
	MUST(!unknown == (strspn(value, "FZPUfzpu") >= letters));
	MUST(!(flags & SLAB_POISON) ==
	     (letters && !memchr(value, 'P', letters) && !memchr(value, 'p', letters)));
	MUST(names == (value[letters] ? value + letters + 1 : NULL));
	MUST(slab_debug_has(names, name) == (!names || is_listed(names, name)));
}

static void attribute(const char *item, size_t len)
{
	const char *eq = memchr(item, '=', len);
	struct slab_setting set;

	if (!slab_setting_split(item, len, &set)) {
		MUST(!eq || !memrchr(item + 1, '/', eq > item ? (size_t)(eq - item - 1) : 0) ||
		     len - (size_t)(eq + 1 - item) >= sizeof(set.value));
		return;
	}
	MUST(set.cache == item && set.cache_len && set.attr == item + set.cache_len + 1);
	MUST(set.attr[-1] == '/' && set.attr + set.attr_len == eq);
	MUST(!memchr(set.attr, '/', set.attr_len));
	MUST(strnlen(set.value, sizeof(set.value)) == len - (size_t)(eq + 1 - item));
	MUST(!memcmp(set.value, eq + 1, strlen(set.value)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	char *value = input_text(&in), *name = input_text(&in), *attributes = input_text(&in);

	debug(value, name);
	for (const char *item = attributes;; item++) {
		size_t len = strcspn(item, ";");

		if (len)
			attribute(item, len);
		item += len;
		if (!*item)
			break;
	}
	free(attributes);
	free(name);
	free(value);
	return 0;
}
