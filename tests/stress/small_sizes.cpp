/* SPDX-License-Identifier: MIT */
/* Small objects freed by whoever gets them: more threads than CPUs, few per array. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, SmallSizes)
{
	stress::Plan plan;

	plan.seed = 101;
	plan.threads = 8;
	plan.mix.kmalloc = 9;
	plan.mix.kzalloc = 1;
	plan.mix.send = 60;
	plan.size_max = 256;
	stress::run(plan);
}
