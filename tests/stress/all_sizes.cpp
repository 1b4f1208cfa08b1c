/* SPDX-License-Identifier: MIT */
/* 1 byte to 4 MiB, 32 threads, zeroed ones among them, and runs of pages. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, AllSizes)
{
	stress::Plan plan;

	plan.seed = 102;
	plan.threads = 32;
	plan.slots = 64;
	plan.mix.kmalloc = 6;
	plan.mix.kzalloc = 3;
	plan.mix.pages = 1;
	plan.size_max = 4 << 20;
	stress::run(plan);
}
