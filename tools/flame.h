/* SPDX-License-Identifier: MIT */
/* A heap profile as a flame graph: a page for a browser. */
#ifndef TOOLS_FLAME_H
#define TOOLS_FLAME_H

#include <string>

#include <nlohmann/json.hpp>

#include "live/profile.h"
#include "symbols.h"

/** @about: what the page says of the process: program, pid, what. */
std::string flame_page(const live::heap_profile &p, symbols &names,
		       const nlohmann::ordered_json &about);

#endif
