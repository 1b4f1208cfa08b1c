/* SPDX-License-Identifier: MIT */
/* What the parts of bench/slab share; each adds its subcommand to the program. */
#ifndef BENCH_SLAB_BENCH_H
#define BENCH_SLAB_BENCH_H

#include <sched.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>
#include <ukmem/slab.h>

#include "die.h"
#include "slab_sources.h"
#include "stay_on_cpu.h"

constexpr size_t kPage = 4096;

inline std::string attribute_text(kmem_cache *s, const char *name)
{
	char text[4096];

	if (kmem_cache_attr_show(s, name, text, sizeof(text)) < 0)
		die(std::string("no attribute ") + name);
	return text;
}

/* The sum; what the CPUs or nodes have of it follows in the text. */
inline unsigned long attribute(kmem_cache *s, const char *name)
{
	return strtoul(attribute_text(s, name).c_str(), nullptr, 10);
}

inline void set_attribute(kmem_cache *s, const char *name, unsigned long value)
{
	if (kmem_cache_attr_store(s, name, std::to_string(value).c_str()))
		die(std::string("cannot set ") + name);
}

inline size_t slab_bytes(kmem_cache *s)
{
	return kPage << attribute(s, "order");
}

/* slab_cold.cpp, slab_bounded.cpp, slab_pass.cpp */
void add_cold(CLI::App &app);
void add_bounded(CLI::App &app);
void add_pass(CLI::App &app);

#endif
