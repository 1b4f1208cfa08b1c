/* SPDX-License-Identifier: MIT */
/* A handler allocates with GFP_ATOMIC, 10000 times a second and more. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Signals)
{
	stress::Plan plan;

	plan.seed = 108;
	plan.threads = 4;
	plan.mix.kmalloc = 2;
	plan.mix.cache = 2;
	plan.mix.pages = 2;
	plan.size_max = 100000;
	plan.trim = true; /* what is empty is refilled: locks are held more */
	plan.signals = true;
	stress::run(plan);
}
