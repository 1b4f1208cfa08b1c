/* SPDX-License-Identifier: MIT */
/* Caches of seven sizes, with alignment and a constructor; exact counts. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Caches)
{
	stress::Plan plan;

	plan.seed = 104;
	plan.mix.cache = 1;
	plan.mix.send = 40;
	stress::run(plan);
}
