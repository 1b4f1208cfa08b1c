/* SPDX-License-Identifier: MIT */
/*
 * Requests to valgrind. A request is instructions that change nothing, of a kind that no
 * compiler makes: valgrind knows them, and takes a number and arguments from where a register
 * points. Elsewhere they do nothing.
 *
 * Instructions and numbers are those of <valgrind/valgrind.h> and <valgrind/memcheck.h>. Here
 * is a header of our own, so that a library makes the same requests wherever it was built.
 */
#ifndef BASE_VALGRIND_H
#define BASE_VALGRIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum valgrind_request {
	VALGRIND_RUNNING_ON = 0x1001,
	/* Words that are 0: nothing lies around the block, and it is not zeroed. */
	VALGRIND_MALLOCLIKE_BLOCK = 0x1301, /* block, bytes */
	VALGRIND_FREELIKE_BLOCK = 0x1302,   /* block */
	/* memcheck's; others do not answer. */
	VALGRIND_MEM_NOACCESS = 'M' << 24 | 'C' << 16, /* memory, bytes */
	VALGRIND_MEM_UNDEFINED,
	VALGRIND_MEM_DEFINED,
};

/* Result: valgrind's answer; 0 elsewhere. */
static always_inline uintptr_t valgrind_ask(enum valgrind_request request, const void *p,
					    size_t n)
{
	uintptr_t answer = 0;
#if defined(__x86_64__)
	const uintptr_t words[6] = { request, (uintptr_t)p, n };

	__asm__ volatile("rolq $3, %%rdi\n\t"
			 "rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi\n\t"
			 "rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(words)
			 : "cc", "memory");
#elif defined(__aarch64__)
	const uintptr_t words[6] = { request, (uintptr_t)p, n };
	register uintptr_t x3 __asm__("x3") = answer;
	register const uintptr_t *x4 __asm__("x4") = words;

	__asm__ volatile("ror x12, x12, #3\n\t"
			 "ror x12, x12, #13\n\t"
			 "ror x12, x12, #51\n\t"
			 "ror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(x3)
			 : "r"(x4)
			 : "cc", "memory");
	answer = x3;
#else
	(void)request;
	(void)p;
	(void)n;
#endif
	return answer;
}

static always_inline bool valgrind_runs(void)
{
	return valgrind_ask(VALGRIND_RUNNING_ON, NULL, 0) != 0;
}

#endif
