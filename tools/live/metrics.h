/* SPDX-License-Identifier: MIT */
/* A snapshot as text that Prometheus reads, in two formats, and as JSON. */
#ifndef TOOLS_LIVE_METRICS_H
#define TOOLS_LIVE_METRICS_H

#include <string>

#include "live/forms.h"
#include "live/snapshot.h"

namespace live
{

/** What metrics() needs of a snapshot: of enum contents. */
constexpr unsigned int metrics_contents = CACHES | ZONES | GAUGES | RESIDENT;

/** OpenMetrics 1.0, or the format before it (0.0.4), which promtool and collectors of files
 * read. They have the same samples, but for the line that ends OpenMetrics. */
enum class metrics_format { OPEN, CLASSIC };

/** The media type of a text. */
const char *metrics_type(metrics_format format);

/**
 * All metrics of a process. Every name begins with "ukmem_"; amounts of memory are in bytes,
 * pages are converted.
 */
std::string metrics(const snapshot &s, const mode &m, const std::string &program,
		    metrics_format format);

/** The same as {"families": [...]}: each with name, type, unit and help, as in OpenMetrics, and
 * samples, which have labels and a value. */
json metrics_json(const snapshot &s, const mode &m, const std::string &program);

/**
 * Counters of @now that are below those of an earlier look become what they were then. A
 * counter that is computed from sums over CPUs which work meanwhile may fall a little, and
 * Prometheus takes that for a new beginning, from zero. A cache that is new begins anew; what
 * one counted that is gone stays in the sums of its name, as long as there are others of it.
 */
void keep_counters(const snapshot &before, snapshot &now);

} // namespace live

#endif
