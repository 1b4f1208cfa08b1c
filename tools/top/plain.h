/* SPDX-License-Identifier: MIT */
/* ukmem top without a terminal: a plain table, or JSON. */
#ifndef TOOLS_TOP_PLAIN_H
#define TOOLS_TOP_PLAIN_H

#include <string>

#include <nlohmann/json.hpp>

#include "top/frame.h"

namespace top
{

/** Totals and the chosen table, all numbers in full. */
std::string plain(const model &m);
/** Gauges, totals and all three tables. What is not known is null. */
nlohmann::ordered_json as_json(const model &m);

} // namespace top

#endif
