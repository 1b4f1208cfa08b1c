/* SPDX-License-Identifier: MIT */
/* Bulks of up to 150 objects into arrays and past them, freed singly and in bulk. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, Bulk)
{
	stress::Plan plan;

	plan.seed = 105;
	plan.mix.bulk = 1;
	plan.mix.cache = 8;
	plan.mix.kmalloc = 4;
	plan.slots = 600;
	stress::run(plan);
}
