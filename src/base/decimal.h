/* SPDX-License-Identifier: MIT */
/* Parses numbers in texts of the system, and writes them. libc's functions need a locale, which
 * libc may not have set up yet. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
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

/* Writes @v and a zero behind it; at most 21 bytes. Result: the number of digits. */
static inline size_t format_decimal(char *s, uint64_t v)
{
	char digits[20];
	size_t n = 0, i = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		s[i++] = digits[--n];
	s[i] = '\0';
	return i;
}

#endif
