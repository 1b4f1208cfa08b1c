/* SPDX-License-Identifier: MIT */
/* Many threads meet in the very first call of a process, again and again. */
#include <gtest/gtest.h>

#include "stress/stress.h"

TEST(Stress, FirstUse)
{
	constexpr unsigned ROUNDS = 240;

	/* This process itself must not use the library before its children do. */
	for (unsigned i = 0; i < ROUNDS * stress::seconds(3) / 3; i++)
		ASSERT_EQ(stress::first_use(113 + i, 8), 0) << "round " << i;
}
