/* SPDX-License-Identifier: MIT */
/*
 * Static probes (USDT) that bpftrace, perf, gdb and SystemTap can attach to: PROBE(name, ...),
 * with two to four integers or pointers.
 *
 * A probe is a nop, and a note in the file which says where it is and where its arguments are
 * then: in which registers or on which place of the stack. Notes are not loaded, so a probe
 * that nobody uses costs that nop, and that the compiler has the arguments at hand. Probes are
 * on slow paths only.
 *
 * The notes' form is that of SystemTap's <sys/sdt.h>: owner "stapsdt", type 3, then three
 * addresses (the probe, a symbol by which tools find out that the file was relocated, no
 * semaphore) and three strings (provider, probe, arguments as "SIZE@PLACE ..."). Here is a
 * header of our own, so that a library has the same probes wherever it was built.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#include <stdint.h>

#if defined(__x86_64__)
#define PROBE_PLACE "nor" /* a constant, a place on the stack, a register */
#elif defined(__aarch64__)
#define PROBE_PLACE "r"
#endif

#ifdef PROBE_PLACE

/* clang-format off */
#define PROBE_NOTE(name, arguments)                                                            \
	"990:	nop\n"                                                                         \
	"	.pushsection .note.stapsdt, \"?\", \"note\"\n"                                 \
	"	.balign 4\n"                                                                   \
	"	.4byte 992f - 991f, 994f - 993f, 3\n"                                          \
	"991:	.asciz \"stapsdt\"\n"                                                          \
	"992:	.balign 4\n"                                                                   \
	"993:	.8byte 990b, _.stapsdt.base, 0\n"                                              \
	"	.asciz \"ukmem\"\n"                                                            \
	"	.asciz \"" name "\"\n"                                                         \
	"	.asciz \"" arguments "\"\n"                                                    \
	"994:	.balign 4\n"                                                                   \
	"	.popsection\n"                                                                 \
	"	.ifndef _.stapsdt.base\n"                                                      \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"     \
	"	.weak _.stapsdt.base\n"                                                        \
	"	.hidden _.stapsdt.base\n"                                                      \
	"_.stapsdt.base:\n"                                                                    \
	"	.space 1\n"                                                                    \
	"	.size _.stapsdt.base, 1\n"                                                     \
	"	.popsection\n"                                                                 \
	"	.endif\n"
/* clang-format on */

#define PROBE_ARGUMENT(x) PROBE_PLACE((uint64_t)(x))
#define PROBE2(name, a, b)                                                                     \
	__asm__ volatile(PROBE_NOTE(name, "8@%0 8@%1")::PROBE_ARGUMENT(a), PROBE_ARGUMENT(b))
#define PROBE3(name, a, b, c)                                                                  \
	__asm__ volatile(PROBE_NOTE(name, "8@%0 8@%1 8@%2")::PROBE_ARGUMENT(a),                \
			 PROBE_ARGUMENT(b), PROBE_ARGUMENT(c))
#define PROBE4(name, a, b, c, d)                                                               \
	__asm__ volatile(PROBE_NOTE(name, "8@%0 8@%1 8@%2 8@%3")::PROBE_ARGUMENT(a),           \
			 PROBE_ARGUMENT(b), PROBE_ARGUMENT(c), PROBE_ARGUMENT(d))

#else

#define PROBE2(name, a, b) ((void)(a), (void)(b))
#define PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))

#endif

#define PROBE_PICK(a, b, c, d, macro, ...) macro
/* Passes the values to the tools that listen; docs/observing.md lists the probes. */
#define PROBE(name, ...) PROBE_PICK(__VA_ARGS__, PROBE4, PROBE3, PROBE2, )(#name, __VA_ARGS__)

#endif
