/* SPDX-License-Identifier: MIT */
/* Threads are moved between CPUs all the time, between and inside of operations. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Migration)
{
	stress::Plan plan;

	plan.seed = 107;
	plan.threads = 16;
	plan.mix.kmalloc = 2;
	plan.mix.cache = 2;
	plan.mix.bulk = 1;
	plan.size_max = 16384;
	plan.migrate = true;
	plan.trim = true;
	stress::run(plan);
}
