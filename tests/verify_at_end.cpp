/* SPDX-License-Identifier: MIT */
/*
 * Every program of GoogleTest verifies the library at the end of each test: a test's threads
 * are joined by then, and what they left behind is to be sound. Children that a test forks, and
 * those of death tests, end without coming here.
 */
#include <cstdio>

#include <gtest/gtest.h>

#include "ukmem/stats.h"

namespace
{

class VerifyAtEnd : public testing::EmptyTestEventListener
{
	void OnTestEnd(const testing::TestInfo & /*info*/) override
	{
		EXPECT_EQ(ukmem_verify(stderr), 0) << "the test left the library unsound";
	}
};

/* Listeners hear of ends in reverse order: this one before the one that prints results. */
const bool added = [] {
	testing::UnitTest::GetInstance()->listeners().Append(new VerifyAtEnd);
	return true;
}();

} // namespace
