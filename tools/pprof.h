/* SPDX-License-Identifier: MIT */
/* Heap profiles as pprof's profile.proto, compressed. */
#ifndef TOOLS_PPROF_H
#define TOOLS_PPROF_H

#include <string>

#include "live/profile.h"
#include "symbols.h"

/** Throws std::runtime_error. */
std::string pprof(const live::heap_profile &p, symbols &names);

#endif
