/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's mallctl(): what a program may ask and tell by name. Names that mean something here
 * are in the table below; for the others, and with them for whatever has to do with several
 * arenas, the result is ENOENT, as in a jemalloc that was built without the part. An arena's
 * number may be 0, which is the whole heap, and whatever stands for all arenas.
 *
 * A MIB has a number for each part of a name: first the name's number in the table, and an
 * arena's number in the place where the name has it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/decimal.h"
#include "kmalloc/kmalloc.h"
#include "malloc/jemalloc.h"
#include "os/os.h"
#include "stats/stats.h"
#include "ukmem/stats.h"

enum {
	PARTS_MAX = 4,
	ARENAS = 1,
	ALL_ARENAS = 4096, /* MALLCTL_ARENAS_ALL; the number of arenas means all, too */
};

union value {
	bool yes;
	unsigned int number;
	size_t size;
	ssize_t ssize;
	uint64_t count;
	const char *text;
};

/* One name. In @name "<i>" stands for an arena's number. */
struct control {
	const char *name;
	size_t bytes;			  /* of its value; 0: it has none, and is a command */
	void (*read)(union value *v);	  /* or the command */
	void (*write)(const void *value); /* NULL: it cannot be written */
};

/* How often a program has asked for figures of now. All figures always are. */
static _Atomic uint64_t epoch = 1;

static void read_epoch(union value *v)
{
	v->count = atomic_load_explicit(&epoch, memory_order_relaxed);
}

static void next_epoch(const void *unused)
{
	(void)unused;
	atomic_fetch_add_explicit(&epoch, 1, memory_order_relaxed);
}

static void read_version(union value *v)
{
	v->text = "ukmem " UKMEM_VERSION;
}

static void read_background(union value *v)
{
	v->yes = config.background_thread != BACKGROUND_NEVER;
}

static void read_one(union value *v)
{
	v->size = 1;
}

static void read_arenas(union value *v)
{
	v->number = ARENAS;
}

static void read_arena(union value *v)
{
	v->number = 0;
}

static void read_page(union value *v)
{
	v->size = os_page_size();
}

static void read_quantum(union value *v)
{
	v->size = _Alignof(max_align_t);
}

static void read_cached_max(union value *v)
{
	v->size = SIZE_CLASS_LARGE_MAX;
}

static void read_decay(union value *v)
{
	v->ssize = (ssize_t)config.dirty_decay_ms;
}

static void trim(union value *unused)
{
	(void)unused;
	ukmem_trim();
}

/* The arrays of free objects are CPUs', and a thread has nothing to give back. */
static void flush_thread(union value *unused)
{
	(void)unused;
}

static void read_true(union value *v)
{
	v->yes = true;
}

static void read_false(union value *v)
{
	v->yes = false;
}

#define GAUGE(name)                                                                            \
	static void read_##name(union value *v)                                                \
	{                                                                                      \
		struct ukmem_gauges g = { 0 };                                                 \
                                                                                               \
		ukmem_gauges_read(&g);                                                         \
		v->size = g.name;                                                              \
	}
GAUGE(allocated)
GAUGE(active)
GAUGE(metadata)
GAUGE(mapped)

/* As jemalloc's, the most that may be resident: all pages with objects count, touched or not.
 * So it is never below what is active. */
static void read_resident(union value *v)
{
	struct ukmem_gauges g = { 0 };

	ukmem_gauges_read(&g);
	v->size = max_size(g.resident, g.active + g.metadata);
}

#define SIZE_OF(member) sizeof(((union value *)NULL)->member)

static const struct control controls[] = {
	{ "version", SIZE_OF(text), read_version, NULL },
	{ "epoch", SIZE_OF(count), read_epoch, next_epoch },
	{ "background_thread", SIZE_OF(yes), read_background, NULL },
	{ "max_background_threads", SIZE_OF(size), read_one, NULL },
	{ "config.stats", SIZE_OF(yes), read_true, NULL },
	{ "config.prof", SIZE_OF(yes), read_false, NULL },
	{ "opt.prof", SIZE_OF(yes), read_false, NULL },
	{ "arenas.narenas", SIZE_OF(number), read_arenas, NULL },
	{ "arenas.page", SIZE_OF(size), read_page, NULL },
	{ "arenas.quantum", SIZE_OF(size), read_quantum, NULL },
	{ "arenas.tcache_max", SIZE_OF(size), read_cached_max, NULL },
	{ "arenas.dirty_decay_ms", SIZE_OF(ssize), read_decay, NULL },
	{ "arena.<i>.dirty_decay_ms", SIZE_OF(ssize), read_decay, NULL },
	{ "arena.<i>.decay", 0, trim, NULL },
	{ "arena.<i>.purge", 0, trim, NULL },
	{ "thread.arena", SIZE_OF(number), read_arena, NULL },
	{ "thread.idle", 0, flush_thread, NULL },
	{ "thread.tcache.flush", 0, flush_thread, NULL },
	{ "stats.allocated", SIZE_OF(size), read_allocated, NULL },
	{ "stats.active", SIZE_OF(size), read_active, NULL },
	{ "stats.metadata", SIZE_OF(size), read_metadata, NULL },
	{ "stats.resident", SIZE_OF(size), read_resident, NULL },
	{ "stats.mapped", SIZE_OF(size), read_mapped, NULL },
};

/* The length of a name's first part. */
static size_t part_length(const char *name)
{
	return strcspn(name, ".");
}

static bool is_arena(uint64_t number)
{
	return number <= ARENAS || number == ALL_ARENAS;
}

/* Whether part @name of @len bytes is one of @part, a name in the table; *@number: the arena's.
 */
static bool matches(const char *part, const char *name, size_t len, size_t *number)
{
	const char *end = name;
	uint64_t v;

	*number = 0;
	if (*part != '<')
		return part_length(part) == len && !memcmp(part, name, len);
	if (!parse_decimal(&end, &v) || (size_t)(end - name) != len || !is_arena(v))
		return false;
	*number = (size_t)v;
	return true;
}

/* Finds the first @most parts of a name in those of a control. Result: how many parts the
 * control's name has; 0: it is another one. */
static size_t parts_of(const struct control *c, const char *name, size_t *mib, size_t most)
{
	const char *part = c->name;
	size_t n = 0;

	for (;;) {
		size_t len = part_length(name), own = part_length(part), number;

		if (!matches(part, name, len, &number))
			return 0;
		if (n < most)
			mib[n] = number;
		n++;
		name += len;
		part += own;
		if (*name != *part)
			return 0;
		if (!*name++)
			return n;
		part++;
	}
}

/* As mallctlnametomib(), with room for *@len parts. */
static int find_control(const char *name, size_t *mib, size_t *len)
{
	for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
		size_t n = parts_of(&controls[i], name, mib, *len);

		if (!n)
			continue;
		*len = min_size(*len, n);
		if (*len)
			mib[0] = i;
		return 0;
	}
	return ENOENT;
}

/* The control behind a MIB; NULL: there is none. */
static const struct control *control_of(const size_t *mib, size_t len)
{
	const struct control *c;
	const char *part;
	size_t n = 0;

	if (!len || mib[0] >= ARRAY_SIZE(controls))
		return NULL;
	c = &controls[mib[0]];
	for (part = c->name;; part++) {
		if (n == len || (*part == '<' && !is_arena(mib[n])))
			return NULL;
		n++;
		part += part_length(part);
		if (!*part)
			return n == len ? c : NULL;
	}
}

/* Hands a value out, as much of it as the caller has room for. */
static int hand_out(const union value *v, size_t bytes, void *old, size_t *old_len)
{
	size_t room = *old_len;

	memcpy(old, v, min_size(room, bytes));
	*old_len = min_size(room, bytes);
	return room == bytes ? 0 : EINVAL;
}

static int control(const struct control *c, void *old, size_t *old_len, const void *value,
		   size_t len)
{
	int saved = errno;
	union value v;

	if (!c)
		return ENOENT;
	if (value || len) {
		if (!c->write)
			return EPERM;
		if (value && len != c->bytes)
			return EINVAL;
	}
	if (!c->bytes && (old || old_len))
		return EPERM;
	if (!kmalloc_init())
		return EAGAIN;
	if (value)
		c->write(value);
	if (!c->bytes || (old && old_len))
		c->read(&v);
	errno = saved;
	return c->bytes && old && old_len ? hand_out(&v, c->bytes, old, old_len) : 0;
}

UKMEM_EXPORT int mallctl(const char *name, void *old, size_t *old_len, void *value, size_t len)
{
	size_t mib[PARTS_MAX], parts = PARTS_MAX;

	return find_control(name, mib, &parts)
		       ? ENOENT
		       : control(&controls[mib[0]], old, old_len, value, len);
}

UKMEM_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *mib_len)
{
	return find_control(name, mib, mib_len);
}

UKMEM_EXPORT int mallctlbymib(const size_t *mib, size_t mib_len, void *old, size_t *old_len,
			      void *value, size_t len)
{
	return control(control_of(mib, mib_len), old, old_len, value, len);
}

/* The letter J asks for JSON. The other letters leave parts out that this text does not have.
 */
UKMEM_EXPORT void malloc_stats_print(void (*write)(void *, const char *), void *to,
				     const char *options)
{
	enum ukmem_stats_format format =
		options && strchr(options, 'J') ? UKMEM_STATS_JSON : UKMEM_STATS_TEXT;
	int saved = errno;

	kmalloc_init_all();
	if (write)
		stats_print_to(write, to, format);
	else
		ukmem_stats_print(STDERR_FILENO, format);
	errno = saved;
}
