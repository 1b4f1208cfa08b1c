/* SPDX-License-Identifier: MIT */
/* All CPUs are stopped and emptied again and again while 8 threads work. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Trim)
{
	stress::Plan plan;

	plan.seed = 106;
	plan.mix.kmalloc = 4;
	plan.mix.kzalloc = 2;
	plan.mix.cache = 4;
	plan.mix.pages = 1;
	plan.size_max = 65536;
	plan.trim = true;
	plan.observe = true;
	stress::run(plan);
}
