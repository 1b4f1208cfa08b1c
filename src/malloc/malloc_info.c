/* SPDX-License-Identifier: MIT */
/* glibc's ways to look at and tune malloc, in terms of the gauges. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "ukmem/compiler.h"
#include "ukmem/stats.h"

UKMEM_EXPORT int malloc_trim(size_t pad)
{
	int saved = errno;
	size_t bytes = ukmem_trim();

	(void)pad;
	errno = saved;
	return bytes != 0;
}

UKMEM_EXPORT struct mallinfo2 mallinfo2(void)
{
	int saved = errno;
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	errno = saved;
	return (struct mallinfo2){
		.arena = g.mapped,
		.uordblks = g.allocated,
		.fordblks = g.mapped - (g.allocated < g.mapped ? g.allocated : g.mapped),
		.keepcost = g.retained,
	};
}

static int saturate(size_t v)
{
	return v > INT_MAX ? INT_MAX : (int)v;
}

UKMEM_EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 m = mallinfo2();

	return (struct mallinfo){
		.arena = saturate(m.arena),
		.uordblks = saturate(m.uordblks),
		.fordblks = saturate(m.fordblks),
		.keepcost = saturate(m.keepcost),
	};
}

UKMEM_EXPORT int malloc_info(int options, FILE *stream)
{
	struct ukmem_gauges g;

	if (options)
		return EINVAL;
	ukmem_gauges_read(&g);
	if (fprintf(stream,
		    "<malloc version=\"ukmem-%s\">\n"
		    "<total type=\"allocated\" size=\"%zu\"/>\n"
		    "<total type=\"active\" size=\"%zu\"/>\n"
		    "<total type=\"resident\" size=\"%zu\"/>\n"
		    "<total type=\"retained\" size=\"%zu\"/>\n"
		    "<total type=\"metadata\" size=\"%zu\"/>\n"
		    "<system type=\"current\" size=\"%zu\"/>\n"
		    "</malloc>\n",
		    ukmem_version(), g.allocated, g.active, g.resident, g.retained, g.metadata,
		    g.mapped) < 0)
		return -1;
	return 0;
}

UKMEM_EXPORT void malloc_stats(void)
{
	int saved = errno;

	ukmem_stats_print(STDERR_FILENO, UKMEM_STATS_TEXT);
	errno = saved;
}

/* Accepted and without effect: what glibc tunes so does not exist here. */
UKMEM_EXPORT int mallopt(int param, int value)
{
	(void)param;
	(void)value;
	return 1;
}
