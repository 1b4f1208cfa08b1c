/* SPDX-License-Identifier: MIT */
/*
 * What a program of every layer does, once: allocate in all ways there are, look at the
 * contents, free, empty, count, fork. Each answer is held against what the headers promise,
 * also where there is nothing to be had.
 */
#ifndef SWEEP_SCENARIO_H
#define SWEEP_SCENARIO_H

#include <cstddef>

#include "blocks.h"

namespace sweep
{

/* What must be as in a process in which nothing failed, after the same. */
struct Counts {
	size_t allocated; /* gauge */
	size_t percpu;	  /* bytes handed out per CPU */
	size_t caches;	  /* objects of the caches that caches are made of */
	size_t mapped;	  /* bytes of address space */
};

/* @leak: a page, an object and a per-CPU variable are forgotten, to see that it is noticed. */
void run_scenario(Nothing nothing, bool leak = false);
/*
 * The same part by part, each with @spare pages and no more; the caller sees to it that the
 * system has none.
 */
void run_starved(unsigned spare);
/* Caches and pools that could not be destroyed, now that the system agrees again. */
void destroy_leftovers();
/* Trims, checks all zones, of which no page may be nobody's, and counts. */
Counts count_all();

} // namespace sweep

#endif
