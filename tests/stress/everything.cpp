/* SPDX-License-Identifier: MIT */
/* All of it at once but fork, with 32 threads. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Everything)
{
	stress::Plan plan;

	plan.seed = 112;
	plan.threads = 32;
	plan.slots = 96;
	plan.mix.kmalloc = plan.mix.cache = 6;
	plan.mix.kzalloc = 3;
	plan.mix.bulk = plan.mix.pages = 1;
	plan.mix.resize = 20;
	plan.size_max = 1 << 20;
	plan.trim = plan.observe = plan.migrate = plan.signals = plan.caches = true;
	plan.life = 5000;
	stress::run(plan);
}
