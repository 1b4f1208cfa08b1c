/* SPDX-License-Identifier: MIT */
/* The public statistics functions: walk the sources. */
#include "stats/stats.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/config.h"

/*
 * Synchronization: appended to by one initialiser at a time; readers follow
 * pointers stored with release.
 */
static _Atomic(struct stats_source *) sources[8];

void stats_register(struct stats_source *source)
{
	for (unsigned int i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct stats_source *expected = NULL;

		if (atomic_compare_exchange_strong(&sources[i], &expected, source) ||
		    expected == source)
			return;
	}
}

#define for_each_source(s, i)                                                                  \
	for (unsigned int i = 0;                                                               \
	     i < sizeof(sources) / sizeof(sources[0]) && (s = atomic_load(&sources[i])); i++)

void stats_gauges(struct ukmem_gauges *g)
{
	struct stats_source *s;

	*g = (struct ukmem_gauges){ 0 };
	for_each_source(s, i) if (s->gauges) s->gauges(g);
}

void ukmem_gauges_read(struct ukmem_gauges *g)
{
	struct stats_source *s;

	stats_gauges(g);
	for_each_source(s, i) if (s->resident) s->resident(g);
}

int ukmem_stats_print(int fd, enum ukmem_stats_format format)
{
	struct ukmem_gauges g;
	struct stats_source *s;
	struct emitter e;

	ukmem_gauges_read(&g);
	emit_begin(&e, fd, format);
	emit_object_begin(&e, "ukmem");
	emit_string(&e, "version", ukmem_version());
	emit_string(&e, "program", program_invocation_short_name);
	emit_number(&e, "pid", (uint64_t)getpid());
	emit_object_end(&e);
	emit_object_begin(&e, "gauges");
	emit_number(&e, "allocated", g.allocated);
	emit_number(&e, "active", g.active);
	emit_number(&e, "resident", g.resident);
	emit_number(&e, "retained", g.retained);
	emit_number(&e, "mapped", g.mapped);
	emit_number(&e, "metadata", g.metadata);
	emit_object_end(&e);
	for_each_source(s, i) if (s->emit) s->emit(&e);
	return emit_end(&e);
}

static void look(struct verify *v, void *unused)
{
	struct stats_source *s;

	(void)unused;
	for_each_source(s, i) if (s->verify) s->verify(v);
}

int ukmem_verify(FILE *out)
{
	struct verify v;
	unsigned int n = verify_run(&v, look, NULL);

	for (unsigned int i = 0; out && i < n && i < VERIFY_FINDINGS; i++)
		fprintf(out, "ukmem_verify: %s\n", v.text[i]);
	if (out && n > VERIFY_FINDINGS)
		fprintf(out, "ukmem_verify: and %u more\n", n - VERIFY_FINDINGS);
	return (int)n;
}

size_t ukmem_trim(void)
{
	struct stats_source *s;
	size_t bytes = 0;

	/* Upper layers first: what they give back the lower ones can give back. */
	for (unsigned int i = sizeof(sources) / sizeof(sources[0]); i-- > 0;) {
		s = atomic_load(&sources[i]);
		if (s && s->trim)
			bytes += s->trim();
	}
	return bytes;
}

int ukmem_config_print(int fd)
{
	struct config_row row;
	struct emitter e;

	config_init();
	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	emit_text(&e, "Set with UKMEM_CONF=\"key:value,key:value\".\n\n");
	emit_text(&e, "%-24s %-7s %-10s %-10s %-28s %s\n", "key", "type", "value", "default",
		  "range", "meaning");
	for (unsigned int i = 0; config_row(i, &row); i++)
		emit_text(&e, "%-24s %-7s %-10s %-10s %-28s %s\n", row.name, row.type,
			  row.value, row.fallback, row.range, row.help);
	return emit_end(&e);
}

const char *ukmem_version(void)
{
	return UKMEM_VERSION;
}
