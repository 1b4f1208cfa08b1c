/* SPDX-License-Identifier: MIT */
/*
 * Hooks for the critical sections, given to the compiler before every header
 * (-include): delays inside them, and sections that are wrong.
 *
 * INJECT_DELAY           before each of a section's places (<ukmem/percpu_ops.h>) a
 *                        loop of inject_delay[place] rounds
 * MUTANT_NO_RESTART      the section is never announced to the kernel
 * MUTANT_EARLY_COMMIT    the section ends before its committing store
 *
 * All but the first are there to show that the tests notice.
 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#ifdef __cplusplus
extern "C" {
#endif
/* Written by the test at any time; read by the sections. */
extern volatile unsigned inject_delay[4] __attribute__((visibility("hidden")));
#ifdef __cplusplus
}
#endif

#define UKMEM_RSEQ_INJECT_TEMP , inject_
#define UKMEM_RSEQ_INJECT_OPERAND , [j] "=&r"(inject_)

#if defined(__x86_64__)
#define UKMEM_RSEQ_INJECT(place)                                                               \
	"movl inject_delay + 4 * " #place "(%%rip), %k[j]\n\t"                                 \
	"7:\n\t"                                                                               \
	"subl $1, %k[j]\n\t"                                                                   \
	"jns 7b\n\t"
#ifdef MUTANT_NO_RESTART
#define UKMEM_RSEQ_ARM "leaq 9b(%%rip), %[t]\n\t"
#endif
#elif defined(__aarch64__)
#define UKMEM_RSEQ_INJECT(place)                                                               \
	"adrp %[j], inject_delay\n\t"                                                          \
	"add %[j], %[j], :lo12:inject_delay\n\t"                                               \
	"ldr %w[j], [%[j], #4 * " #place "]\n\t"                                               \
	"7:\n\t"                                                                               \
	"cbz %w[j], 8f\n\t"                                                                    \
	"sub %w[j], %w[j], #1\n\t"                                                             \
	"b 7b\n\t"                                                                             \
	"8:\n\t"
#ifdef MUTANT_NO_RESTART
#define UKMEM_RSEQ_ARM "mov %[t], xzr\n\t"
#endif
#endif

#ifdef MUTANT_EARLY_COMMIT
#define UKMEM_RSEQ_COMMIT(store) "2:\n\t" UKMEM_RSEQ_INJECT(3) store
#endif

#endif
