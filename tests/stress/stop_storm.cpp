/* SPDX-License-Identifier: MIT */
/* One cache, shrunk without a pause: stops meet sections in the middle of their work. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, StopStorm)
{
	stress::Plan plan;

	plan.seed = 114;
	plan.threads = 2;
	plan.slots = 16;
	plan.mix.cache = 1;
	plan.mix.send = 0;
	plan.mix.check = 0;
	plan.one_cache = 1;
	plan.trim = true;
	plan.trim_pause = 0;
	stress::run(plan);
}
