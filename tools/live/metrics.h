/* SPDX-License-Identifier: MIT */
/* A snapshot as OpenMetrics text, which Prometheus reads. */
#ifndef TOOLS_LIVE_METRICS_H
#define TOOLS_LIVE_METRICS_H

#include <string>

#include "live/snapshot.h"

namespace live
{

/** What metrics() needs of a snapshot: of enum contents. */
constexpr unsigned int metrics_contents = CACHES | ZONES | GAUGES | RESIDENT;

/** The media type of the text. */
extern const char *const metrics_type;

/**
 * All metrics of a process. Every name begins with "ukmem_"; amounts of memory are in bytes,
 * pages are converted.
 */
std::string metrics(const snapshot &s, const mode &m, const std::string &program);

} // namespace live

#endif
