/* SPDX-License-Identifier: MIT */
/*
 * Numbers out of text: each function at the ends of its type, and what is no number.
 *
 * Mutants that were caught: an overflow of the sum or of the product unnoticed; two newlines,
 * two signs, or what follows let pass; a digit as large as the base; 0x in any base; octal as
 * decimal; narrow types by a cast; a result in spite of an error; "On" no word, "ox" and ""
 * words.
 */
#include <linux/kernel.h>
#include <linux/kstrtox.h>

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

int checks_failed;

static void check_unsigned(const char *s, unsigned int base, int err, unsigned long long value)
{
	unsigned long long res = 77;

	CHECK(kstrtoull(s, base, &res) == err);
	CHECK(res == (err ? 77 : value));
}

static void check_signed(const char *s, int err, long long value)
{
	long long res = 77;

	CHECK(kstrtoll(s, 0, &res) == err);
	CHECK(res == (err ? 77 : value));
}

static void check_text(void)
{
	check_unsigned("0", 0, 0, 0);
	check_unsigned("+12\n", 10, 0, 12);
	check_unsigned("017", 0, 0, 15);
	check_unsigned("017", 10, 0, 17);
	check_unsigned("0xFf", 0, 0, 255);
	check_unsigned("0xff", 16, 0, 255);
	check_unsigned("ff", 16, 0, 255);
	check_unsigned("101", 2, 0, 5);
	check_unsigned("zz", 36, 0, 35 * 36 + 35);
	static const char *const wrong[] = { "",   "\n",  "+",	   "-1",  "+-1", "++1",
					     " 1", "1 ",  "1\n\n", "0x",  "0xg", "1a",
					     "08", "0b1", "1.0",   "1\n1" };
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++)
		check_unsigned(wrong[i], 0, -EINVAL, 0);
	check_unsigned("2", 2, -EINVAL, 0);
	check_unsigned("0x1", 10, -EINVAL, 0);
}

static void check_ranges(void)
{
	check_unsigned("18446744073709551615", 10, 0, ~0ull);
	check_unsigned("18446744073709551616", 10, -ERANGE, 0); /* the addition */
	check_unsigned("99999999999999999999", 10, -ERANGE, 0); /* the product */
	check_unsigned("18446744073709551616x", 10, -EINVAL, 0);
	check_signed("9223372036854775807", 0, S64_MAX);
	check_signed("9223372036854775808", -ERANGE, 0);
	check_signed("-9223372036854775808", 0, S64_MIN);
	check_signed("-9223372036854775809", -ERANGE, 0);
	check_signed("-0x10", 0, -16);
	check_signed("--1", -EINVAL, 0);
	check_signed("-+1", -EINVAL, 0);
	check_signed("-", -EINVAL, 0);
}

/* The last value of a type, and the next one. */
#define CHECK_END(fn, type, last, next)                                                        \
	do {                                                                                   \
		type res_ = 1;                                                                 \
		CHECK(fn(last, 0, &res_) == 0);                                                \
		CHECK((long long)res_ == atoll(last));                                         \
		res_ = 1;                                                                      \
		CHECK(fn(next, 0, &res_) == -ERANGE && res_ == 1);                             \
	} while (0)

static void check_types(void)
{
	unsigned long l = 0;
	long s = 0;
	u64 u = 0;
	s64 v = 0;

	CHECK_END(kstrtouint, unsigned int, "4294967295", "4294967296");
	CHECK_END(kstrtoint, int, "2147483647", "2147483648");
	CHECK_END(kstrtoint, int, "-2147483648", "-2147483649");
	CHECK_END(kstrtou32, u32, "4294967295", "4294967296");
	CHECK_END(kstrtos32, s32, "-2147483648", "-2147483649");
	CHECK_END(kstrtou16, u16, "65535", "65536");
	CHECK_END(kstrtos16, s16, "-32768", "32768");
	CHECK_END(kstrtou8, u8, "255", "256");
	CHECK_END(kstrtos8, s8, "127", "-129");
	CHECK(kstrtoul("0xffff", 0, &l) == 0 && l == 0xffff);
	CHECK(kstrtol("-5", 0, &s) == 0 && s == -5);
	CHECK(kstrtou64("18446744073709551615", 0, &u) == 0 && u == U64_MAX);
	CHECK(kstrtos64("-9223372036854775808", 0, &v) == 0 && v == S64_MIN);
}

static void check_bool(void)
{
	static const char *const yes[] = { "y", "Yes", "t", "true", "1", "on", "ON\n" };
	static const char *const no[] = { "n", "No", "f", "false", "0", "off", "oF" };
	static const char *const neither[] = { "", "o", "ox", "2", "x", "\n" };
	bool res;

	for (unsigned int i = 0; i < ARRAY_SIZE(yes); i++) {
		res = false;
		CHECK(kstrtobool(yes[i], &res) == 0 && res);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(no); i++) {
		res = true;
		CHECK(kstrtobool(no[i], &res) == 0 && !res);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(neither); i++)
		CHECK(kstrtobool(neither[i], &res) == -EINVAL);
	CHECK(kstrtobool(NULL, &res) == -EINVAL);
}

int main(void)
{
	check_text();
	check_ranges();
	check_types();
	check_bool();
	printf("numbers: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
