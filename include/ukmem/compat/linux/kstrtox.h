/* SPDX-License-Identifier: MIT */
/*
 * <linux/kstrtox.h> - numbers out of text, all of it: no spaces, at most a newline at the end.
 *
 * kstrtoull(s, base, res) and its kind: @base 0 goes by the prefix, as C does; base 16 may have
 * 0x. One + may stand in front, or, of signed numbers, one -. Result: 0; -EINVAL: @s is no
 * number; -ERANGE: the number is none of the type. Then *@res is as it was.
 */
#ifndef UKMEM_COMPAT_LINUX_KSTRTOX_H
#define UKMEM_COMPAT_LINUX_KSTRTOX_H

#include <errno.h>
#include <stdbool.h>

#include <linux/compiler.h>
#include <linux/types.h>

/* The value of a digit; 99: @c is none of any base. */
static inline unsigned int ukmem_digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	if (c >= 'a' && c <= 'z')
		return (unsigned int)(c - 'a') + 10;
	return c >= 'A' && c <= 'Z' ? (unsigned int)(c - 'A') + 10 : 99;
}

static inline bool ukmem_begins_hex(const char *s)
{
	return s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
}

/* Digits alone, without a sign. */
static inline int ukmem_parse_digits(const char *s, unsigned int base, unsigned long long *res)
{
	unsigned long long n = 0;
	bool overflow = false;

	if (base == 0)
		base = ukmem_begins_hex(s) ? 16 : s[0] == '0' ? 8 : 10;
	if (base == 16 && ukmem_begins_hex(s))
		s += 2;
	if (ukmem_digit_value(*s) >= base)
		return -EINVAL;
	for (; ukmem_digit_value(*s) < base; s++)
		overflow |= __builtin_mul_overflow(n, base, &n) ||
			    __builtin_add_overflow(n, ukmem_digit_value(*s), &n);
	if (*s == '\n')
		s++;
	if (*s)
		return -EINVAL;
	if (overflow)
		return -ERANGE;
	*res = n;
	return 0;
}

static inline int __must_check kstrtoull(const char *s, unsigned int base,
					 unsigned long long *res)
{
	return ukmem_parse_digits(s + (*s == '+'), base, res);
}

static inline int __must_check kstrtoll(const char *s, unsigned int base, long long *res)
{
	bool minus = *s == '-', overflow;
	unsigned long long n;
	long long value;
	int err = minus ? ukmem_parse_digits(s + 1, base, &n) : kstrtoull(s, base, &n);

	if (err)
		return err;
	overflow = minus ? __builtin_sub_overflow(0, n, &value)
			 : __builtin_add_overflow(n, 0, &value);
	if (overflow)
		return -ERANGE;
	*res = value;
	return 0;
}

/* name(s, base, res) for a narrower type, by way of @wide. */
#define UKMEM_KSTRTO(name, type, wide, wide_type)                                              \
	static inline int __must_check name(const char *s, unsigned int base, type *res)       \
	{                                                                                      \
		wide_type n;                                                                   \
		int err = wide(s, base, &n);                                                   \
                                                                                               \
		if (err)                                                                       \
			return err;                                                            \
		if ((wide_type)(type)n != n)                                                   \
			return -ERANGE;                                                        \
		*res = (type)n;                                                                \
		return 0;                                                                      \
	}

UKMEM_KSTRTO(kstrtoul, unsigned long, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtol, long, kstrtoll, long long)
UKMEM_KSTRTO(kstrtouint, unsigned int, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtoint, int, kstrtoll, long long)
UKMEM_KSTRTO(kstrtou64, u64, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtos64, s64, kstrtoll, long long)
UKMEM_KSTRTO(kstrtou32, u32, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtos32, s32, kstrtoll, long long)
UKMEM_KSTRTO(kstrtou16, u16, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtos16, s16, kstrtoll, long long)
UKMEM_KSTRTO(kstrtou8, u8, kstrtoull, unsigned long long)
UKMEM_KSTRTO(kstrtos8, s8, kstrtoll, long long)

/* y, t, 1, on: true; n, f, 0, off: false; upper case, too. What follows is not looked at.
 * Result: 0; -EINVAL: @s is neither, or NULL. */
static inline int __must_check kstrtobool(const char *s, bool *res)
{
	static const char yes[] = "yYtT1", no[] = "nNfF0";
	bool is_o;

	if (!s || !*s)
		return -EINVAL;
	is_o = *s == 'o' || *s == 'O';
	if (__builtin_strchr(yes, *s) || (is_o && (s[1] == 'n' || s[1] == 'N')))
		*res = true;
	else if (__builtin_strchr(no, *s) || (is_o && (s[1] == 'f' || s[1] == 'F')))
		*res = false;
	else
		return -EINVAL;
	return 0;
}

#endif
