/* SPDX-License-Identifier: MIT */
/* Moves pointers inside a section, for x86-64. */
#ifndef PERCPU_COPY_X86_64_H
#define PERCPU_COPY_X86_64_H

/* One instruction a line: */
/* clang-format off */

/*
 * Names of operands: [@n] pointers, one at least, from [@from] to [@to], four at a time. Moves
 * these two behind them, and @n to 0; xmm0 and xmm1 are clobbered.
 */
#define SECTION_COPY(from, to, n)                                                              \
	"subl $4, %k[" n "]\n\t"                                                               \
	"jb 32f\n\t"                                                                           \
	"31:\n\t"                                                                              \
	"movups (%[" from "]), %%xmm0\n\t"                                                     \
	"movups 16(%[" from "]), %%xmm1\n\t"                                                   \
	"movups %%xmm0, (%[" to "])\n\t"                                                       \
	"movups %%xmm1, 16(%[" to "])\n\t"                                                     \
	"addq $32, %[" from "]\n\t"                                                            \
	"addq $32, %[" to "]\n\t"                                                              \
	"subl $4, %k[" n "]\n\t"                                                               \
	"jae 31b\n\t"                                                                          \
	"32:\n\t"                                                                              \
	"addl $4, %k[" n "]\n\t"                                                               \
	"jz 34f\n\t"                                                                           \
	"33:\n\t"                                                                              \
	"movq (%[" from "]), %%xmm0\n\t"                                                       \
	"movq %%xmm0, (%[" to "])\n\t"                                                         \
	"addq $8, %[" from "]\n\t"                                                             \
	"addq $8, %[" to "]\n\t"                                                               \
	"decl %k[" n "]\n\t"                                                                   \
	"jnz 33b\n\t"                                                                          \
	"34:\n\t"

/* clang-format on */

#endif
