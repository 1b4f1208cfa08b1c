/* SPDX-License-Identifier: MIT */
/* A clock that a test turns: os_calls.now_ms = fake_now_ms. */
#ifndef UNIT_FAKE_CLOCK_H
#define UNIT_FAKE_CLOCK_H

#include <cstdint>

inline uint64_t fake_now = 1000000; /* ms */

inline uint64_t fake_now_ms()
{
	return fake_now;
}

#endif
