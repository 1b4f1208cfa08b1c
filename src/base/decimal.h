/* SPDX-License-Identifier: MIT */
/* Parses numbers in texts of the system. libc's functions need a locale, which libc may not
 * have set up yet. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/* Parses the digits at *@s, and moves *@s behind them. False: there are none, or too many. */
static inline bool parse_decimal(const char **s, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (p == *s)
		return false;
	*s = p;
	*out = v;
	return true;
}

#endif
