/* SPDX-License-Identifier: MIT */
/* Caches come and go beside others that stay, while all are trimmed and listed. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, PassingCaches)
{
	stress::Plan plan;

	plan.seed = 111;
	plan.mix.kmalloc = 1;
	plan.mix.cache = 3;
	plan.caches = true;
	plan.trim = true;
	plan.observe = true;
	stress::run(plan);
}
