/* SPDX-License-Identifier: MIT */
/* Moves pointers inside a section, for aarch64. */
#ifndef PERCPU_COPY_AARCH64_H
#define PERCPU_COPY_AARCH64_H

/* One instruction a line: */
/* clang-format off */

/*
 * Names of operands: [@n] pointers, one at least, from [@from] to [@to]. Moves these two behind
 * them, and @n to 0; uses [o].
 */
#define SECTION_COPY(from, to, n)                                                              \
	"31:\n\t"                                                                              \
	"ldr %[o], [%[" from "]], #8\n\t"                                                      \
	"str %[o], [%[" to "]], #8\n\t"                                                        \
	"subs %w[" n "], %w[" n "], #1\n\t"                                                    \
	"b.ne 31b\n\t"

/* clang-format on */

#endif
