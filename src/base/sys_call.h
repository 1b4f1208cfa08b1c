/* SPDX-License-Identifier: MIT */
/*
 * System calls without libc's functions. Each function of libc that the library names costs the
 * start of every process a look-up by the dynamic linker, also if nothing calls it (D0.8); and
 * some of them are cancellation points.
 *
 *	long sys_call(long nr, ...)	up to six arguments, each an integer or a pointer
 *
 * Result: as the kernel gives it, an error as a negative errno. libc's errno stays.
 */
#ifndef BASE_SYS_CALL_H
#define BASE_SYS_CALL_H

#include <sys/syscall.h>

#include "base/compiler.h"

#if (!defined(__x86_64__) || defined(__ILP32__)) && !defined(__aarch64__)
#include <errno.h>
#include <unistd.h>
#endif

static always_inline long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__) && !defined(__ILP32__)
	register long fourth __asm__("r10") = d;
	register long fifth __asm__("r8") = e;
	register long sixth __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return nr;
#elif defined(__aarch64__)
	register long number __asm__("x8") = nr;
	register long first __asm__("x0") = a;
	register long second __asm__("x1") = b;
	register long third __asm__("x2") = c;
	register long fourth __asm__("x3") = d;
	register long fifth __asm__("x4") = e;
	register long sixth __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(first)
			 : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth),
			   "r"(sixth)
			 : "memory");
	return first;
#else
	int saved = errno;
	long result = syscall(nr, a, b, c, d, e, f);

	if (result == -1) {
		result = -errno;
		errno = saved;
	}
	return result;
#endif
}

#define SYS_CALL_0(nr) sys_call6(nr, 0, 0, 0, 0, 0, 0)
#define SYS_CALL_1(nr, a) sys_call6(nr, (long)(a), 0, 0, 0, 0, 0)
#define SYS_CALL_2(nr, a, b) sys_call6(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS_CALL_3(nr, a, b, c) sys_call6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS_CALL_4(nr, a, b, c, d)                                                             \
	sys_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYS_CALL_5(nr, a, b, c, d, e)                                                          \
	sys_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define SYS_CALL_6(nr, a, b, c, d, e, f)                                                       \
	sys_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define SYS_CALL_PICK(nr, a, b, c, d, e, f, name, ...) name
#define sys_call(...)                                                                          \
	SYS_CALL_PICK(__VA_ARGS__, SYS_CALL_6, SYS_CALL_5, SYS_CALL_4, SYS_CALL_3, SYS_CALL_2, \
		      SYS_CALL_1, SYS_CALL_0, )                                                \
	(__VA_ARGS__)

#endif
