/* SPDX-License-Identifier: MIT */
/*
 * What a program of every layer does, once: allocate in all ways there are, look at the
 * contents, free, empty, count, fork. Each answer is held against what the headers promise,
 * also where there is nothing to be had.
 */
#ifndef SWEEP_SCENARIO_H
#define SWEEP_SCENARIO_H

#include <cstddef>
#include <vector>

#include "blocks.h"

struct page;

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
 * All pages there are, taken away but for @spare of them; the caller sees to it that there will
 * be no more. Until it ends.
 */
class Hoard
{
      public:
	explicit Hoard(unsigned spare);
	~Hoard();

      private:
	std::vector<::page *> pages_;
};

/* Caches and pools that could not be destroyed, now that the system agrees again. */
void destroy_leftovers();
/* Trims, checks all zones, of which no page may be nobody's, and counts. */
Counts count_all();

} // namespace sweep

#endif
