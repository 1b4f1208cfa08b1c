/* SPDX-License-Identifier: MIT */
/* Children of a process under load allocate and free. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Fork)
{
	stress::Plan plan;

	plan.seed = 110;
	plan.mix.kmalloc = 4;
	plan.mix.cache = 2;
	plan.mix.pages = 1;
	plan.size_max = 65536;
	plan.fork = true;
	plan.trim = true;
	plan.caches = true;
	stress::run(plan);
}
