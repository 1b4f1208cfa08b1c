/* SPDX-License-Identifier: MIT */
/*
 * The frame of a restartable critical section, per architecture.
 *
 * A section is specified as pseudocode where it is used and lies between
 * RSEQ_START and RSEQ_COMMIT. If the thread is preempted, migrated or signalled
 * between the two, the kernel moves it to the abort handler, which jumps to a
 * label; nothing the section did counts until its last instruction, the one
 * store before RSEQ_COMMIT. There is no loop: an aborted operation is the
 * slow path's, which bounds its retries and can do without sections.
 *
 * Local labels: 1 start, 2 after commit, 4 abort handler, 9 descriptor.
 * See rseq(2); the descriptor is struct rseq_cs.
 */
#ifndef PERCPU_RSEQ_H
#define PERCPU_RSEQ_H

#include "base/compiler.h"

#if !UKMEM_TSAN && defined(__has_include)
#if __has_include(<sys/rseq.h>) && (defined(__x86_64__) || defined(__aarch64__))
#define PCPU_HAVE_RSEQ 1
#endif
#endif
#ifndef PCPU_HAVE_RSEQ
#define PCPU_HAVE_RSEQ 0
#endif

#define RSEQ_DESCRIPTOR                                                                        \
	".pushsection __rseq_cs, \"aw\"\n\t"                                                   \
	".balign 32\n\t"                                                                       \
	"9:\n\t"                                                                               \
	".long 0, 0\n\t"                                                                       \
	".quad 1f, 2f - 1f, 4f\n\t"                                                            \
	".popsection\n\t"

#if defined(__x86_64__)

/* ud1 with the signature as its displacement, so that disassemblers keep step. */
#define RSEQ_ABORT_TO(label)                                                                   \
	".pushsection __rseq_failure, \"ax\"\n\t"                                              \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                           \
	".long 0x53053053\n\t"                                                                 \
	"4:\n\t"                                                                               \
	"jmp " label "\n\t"                                                                    \
	".popsection\n\t"

/* @t: a scratch register; @rs: holds pcpu.rseq. */
#define RSEQ_START(t, rs)                                                                      \
	RSEQ_DESCRIPTOR                                                                        \
	"leaq 9b(%%rip), " t "\n\t"                                                            \
	"movq " t ", %%fs:8(" rs ")\n\t"                                                       \
	"1:\n\t"

#define RSEQ_COMMIT "2:\n\t"

#elif defined(__aarch64__)

#define RSEQ_ABORT_TO(label)                                                                   \
	".pushsection __rseq_failure, \"ax\"\n\t"                                              \
	".inst 0xd428bc00\n\t"                                                                 \
	"4:\n\t"                                                                               \
	"b " label "\n\t"                                                                      \
	".popsection\n\t"

/* @t: a scratch register; @rs: address of this thread's struct rseq. */
#define RSEQ_START(t, rs)                                                                      \
	RSEQ_DESCRIPTOR                                                                        \
	"adrp " t ", 9b\n\t"                                                                   \
	"add " t ", " t ", :lo12:9b\n\t"                                                       \
	"str " t ", [" rs ", #8]\n\t"                                                          \
	"1:\n\t"

#define RSEQ_COMMIT "2:\n\t"

#endif

#endif
