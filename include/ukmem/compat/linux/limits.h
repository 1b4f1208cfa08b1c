/* SPDX-License-Identifier: MIT */
/*
 * <linux/limits.h> - the system's, C's, and the ranges of types of fixed size. <limits.h>
 * itself includes this header, so in C++ it defines no more than the system's.
 */
#ifndef UKMEM_COMPAT_LINUX_LIMITS_H
#define UKMEM_COMPAT_LINUX_LIMITS_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/limits.h>

#ifndef __cplusplus

#include <limits.h>
#include <stdint.h>

#define U8_MAX ((__UINT8_TYPE__)UINT8_MAX)
#define S8_MAX ((__INT8_TYPE__)INT8_MAX)
#define S8_MIN ((__INT8_TYPE__)INT8_MIN)
#define U16_MAX ((__UINT16_TYPE__)UINT16_MAX)
#define S16_MAX ((__INT16_TYPE__)INT16_MAX)
#define S16_MIN ((__INT16_TYPE__)INT16_MIN)
#define U32_MAX UINT32_MAX
#define S32_MAX INT32_MAX
#define S32_MIN INT32_MIN
#define U64_MAX (~0ull)
#define S64_MAX ((long long)(~0ull >> 1))
#define S64_MIN (-S64_MAX - 1)
#define PHYS_ADDR_MAX U64_MAX

#endif

#endif
