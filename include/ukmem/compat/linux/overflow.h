/* SPDX-License-Identifier: MIT */
/*
 * <linux/overflow.h> - sizes that do not wrap around: <ukmem/overflow.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_OVERFLOW_H
#define UKMEM_COMPAT_LINUX_OVERFLOW_H

#include <linux/limits.h>
#include <linux/types.h>
#include <ukmem/overflow.h>

/*
 * check_shl_overflow - *@d = @a << @s
 *
 * Result: true if the value did not fit into *@d, or one of the two numbers is negative, or @s
 * is as many bits as *@d has, or more. Then *@d has no meaning.
 */
#define check_shl_overflow(a, s, d)                                                            \
	__extension__({                                                                        \
		__typeof__(a) ukmem_shl_a = (a);                                               \
		__typeof__(s) ukmem_shl_s = (s);                                               \
		__typeof__(d) ukmem_shl_d = (d);                                               \
		bool ukmem_shl_fits = ukmem_at_least_0(ukmem_shl_s) &&                         \
				      (u64)ukmem_shl_s < 8 * sizeof(*ukmem_shl_d);             \
		int ukmem_shl_bits = ukmem_shl_fits ? (int)ukmem_shl_s : 0;                    \
		u64 ukmem_shl_value = (u64)ukmem_shl_a << ukmem_shl_bits;                      \
		*ukmem_shl_d = (__typeof__(*ukmem_shl_d))ukmem_shl_value;                      \
		!(ukmem_shl_fits && ukmem_at_least_0(ukmem_shl_a) &&                           \
		  ukmem_at_least_0(*ukmem_shl_d) && (u64)*ukmem_shl_d == ukmem_shl_value &&    \
		  ukmem_shl_value >> ukmem_shl_bits == (u64)ukmem_shl_a);                      \
	})
/* Compilers warn of >= 0 where the type has no sign. */
#define ukmem_at_least_0(x) ((x) > 0 || (x) == 0)

#define is_signed_type(type) ((type)-1 <= (type)0)
#define type_max(type)                                                                         \
	((type)(is_signed_type(type) ? ~0ull >> (65 - 8 * sizeof(type))                        \
				     : ~0ull >> (64 - 8 * sizeof(type))))
#define type_min(type) ((type)(is_signed_type(type) ? -(s64)type_max(type) - 1 : 0))

#endif
