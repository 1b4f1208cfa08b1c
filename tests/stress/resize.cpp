/* SPDX-License-Identifier: MIT */
/* krealloc up and down, in place, between classes and between classes and pages. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Resize)
{
	stress::Plan plan;

	plan.seed = 103;
	plan.mix.kmalloc = 8;
	plan.mix.pages = 2;
	plan.mix.resize = 120;
	plan.size_max = 1 << 20;
	stress::run(plan);
}
