/* SPDX-License-Identifier: MIT */
/* The public statistics functions: they collect from all layers. */
#include "stats/stats.h"

#include <errno.h>

#include "base/config.h"
#include "base/program.h"
#include "base/sys.h"
#include "layer/layer.h"

void stats_gauges(struct ukmem_gauges *g)
{
	*g = (struct ukmem_gauges){ 0 };
	for_each_layer (l)
		if (l->gauges)
			l->gauges(g);
}

void ukmem_gauges_read(struct ukmem_gauges *g)
{
	stats_gauges(g);
	for_each_layer (l)
		if (l->resident)
			l->resident(g);
}

void stats_emit_gauges(struct emitter *e, const struct ukmem_gauges *g)
{
	emit_object_begin(e, "gauges");
	emit_number(e, "allocated", g->allocated);
	emit_number(e, "active", g->active);
	emit_number(e, "resident", g->resident);
	emit_number(e, "retained", g->retained);
	emit_number(e, "mapped", g->mapped);
	emit_number(e, "metadata", g->metadata);
	emit_object_end(e);
}

static void emit_all(struct emitter *e)
{
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	emit_object_begin(e, "ukmem");
	emit_string(e, "version", ukmem_version());
	emit_string(e, "program", program_name());
	emit_number(e, "pid", (uint64_t)sys_process_to_tell());
	emit_object_end(e);
	stats_emit_gauges(e, &g);
	for_each_layer (l)
		if (l->emit)
			l->emit(e);
}

int ukmem_stats_print(int fd, enum ukmem_stats_format format)
{
	struct emitter e;

	emit_begin(&e, fd, format);
	emit_all(&e);
	return emit_end(&e);
}

void stats_print_to(emit_function *take, void *to, enum ukmem_stats_format format)
{
	struct emitter e;

	emit_begin_to(&e, take, to, format);
	emit_all(&e);
	emit_end(&e);
}

static void emit_config_file(struct emitter *e, const struct config_reading *r,
			     enum config_from from)
{
	const char *path = config_path(r, from);

	if (*path)
		emit_text(e, "  %s%s\n", path,
			  !r->config->config_files || r->secure ? " (not read)"
			  : r->opened[from] == -ENOENT || r->opened[from] == -ENOTDIR
				  ? " (there is no such file)"
			  : r->opened[from] == -EPERM ? " (not read: it is another user's)"
			  : r->opened[from]	      ? " (cannot be opened)"
						      : "");
}

static int print_config(int fd, const struct config_reading *r)
{
	struct config_row row;
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	emit_text(
		&e,
		"Set with UKMEM_CONF=\"key:value,key:value\", or with lines 'key: value' in\n");
	emit_config_file(&e, r, CONFIG_ETC);
	emit_config_file(&e, r, CONFIG_USER);
	emit_text(&e, "\n%-24s %-7s %-10s %-10s %-28s %-11s %s\n", "key", "type", "value",
		  "default", "range", "from", "meaning");
	for (unsigned int i = 0; config_row(r, i, &row); i++) {
		/* A text is cut off at the length of a line, and a path may be as long. */
		emit_text(&e, "%-24s %-7s %-10s %-10s %-28s ", row.name, row.type, row.value,
			  row.fallback, row.range);
		emit_text(&e, "%-11s ", row.origin);
		emit_text(&e, "%s\n", row.help);
	}
	return emit_end(&e);
}

int ukmem_config_print(int fd)
{
	return print_config(fd, config_read());
}

int ukmem_config_print_for(int fd, const char *program)
{
	struct config_reading reading;
	struct config values;

	config_read_for(&reading, &values, program, false);
	return print_config(fd, &reading);
}

const char *ukmem_version(void)
{
	return UKMEM_VERSION;
}
