/* SPDX-License-Identifier: MIT */
/* Threads live for 2000 steps and leave what they hold to their successors. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Churn)
{
	stress::Plan plan;

	plan.seed = 109;
	plan.threads = 16;
	plan.mix.kmalloc = 3;
	plan.mix.cache = 1;
	plan.mix.send = 60;
	plan.life = 2000;
	stress::run(plan);
}
