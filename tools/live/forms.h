/* SPDX-License-Identifier: MIT */
/*
 * Forms in which a snapshot is shown. Texts are the library's own (src/slab/show, src/page), so
 * a process that runs and one that exits look the same; JSON has the same names.
 */
#ifndef TOOLS_LIVE_FORMS_H
#define TOOLS_LIVE_FORMS_H

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "live/snapshot.h"

struct emitter;

namespace live
{

using json = nlohmann::ordered_json;

void emit_slabinfo(emitter &e, const snapshot &s);
void emit_pools(emitter &e, const snapshot &s);
void emit_layers(emitter &e, const snapshot &s);
void emit_zoneinfo(emitter &e, const snapshot &s);
void emit_buddyinfo(emitter &e, const snapshot &s);
void emit_vmstat(emitter &e, const snapshot &s);
void emit_gauges(emitter &e, const snapshot &s);

json slabinfo_json(const snapshot &s);
json zoneinfo_json(const snapshot &s);
json buddyinfo_json(const snapshot &s);
json vmstat_json(const snapshot &s);
json gauges_json(const snapshot &s);
/** As slab_pools_emit() and slab_layers_emit() write it. */
json pools_json(const snapshot &s);
json layers_json(const snapshot &s);

/** Whether a line of vmstat is an amount, which may fall; all others are counters. */
bool is_amount(const std::string &name);
/** The growth of a counter per second from @before to @now; 0 if it is not in both. */
double rate(const snapshot &before, const snapshot &now, const std::string &counter);
/** Rates of all counters of vmstat. */
json rates_json(const snapshot &before, const snapshot &now);
/** A line for vmstat with an interval, and the heading of such lines. */
std::string rates_heading();
std::string rates_line(const snapshot &before, const snapshot &now);

/** A cache's attribute: text as kmem_cache_attr_show() gives it, without the newline. */
struct attribute {
	std::string name, text;
	json value;
};
/** All attributes, in the library's order. @ctor: the constructor in words. */
std::vector<attribute> attributes(const reader &r, const snapshot &s, const cache &c);

} // namespace live

#endif
