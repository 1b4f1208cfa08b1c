/* SPDX-License-Identifier: MIT */
/*
 * The multi functions' sections. Specified here once; section_*.h implement them.
 *
 *   Each section begins with a test that this CPU's id is below pcpu.ending, which it reads
 *   within the section (percpu/sections.c); otherwise it fails.
 *
 *   biased(side, ptr, n):
 *     w = side->word
 *     if w's owner is not BIASED to this CPU: fail
 *     room = side->limit - w.index
 *     if room < n:
 *	 limit = other->index (acquire) + side->slack
 *	 if limit - w.index < n: little
 *	 side->limit = limit
 *     move n pointers between ptr and the ring, from w.index on
 *     commit (release) side->word = w with index + n
 *
 *   one(side, ptr, 1): the same for one pointer
 *
 *   locked(side, ptr, n, s):
 *     if this is not CPU s->cpu: fail
 *     if !cmpxchg(side->word, s->expected, s->held) (acquire): fail
 *     side->limit = s->limit
 *     move n pointers
 *     commit (release) side->word = s->done
 *
 * A thread that is preempted, migrated or signalled before the commit fails.
 */
#ifndef QUEUE_SECTION_H
#define QUEUE_SECTION_H

#include "base/compiler.h"
#include "percpu/percpu.h"
#include "queue/side.h"

enum section_result {
	SECTION_DONE,
	SECTION_FAILED,
	SECTION_LITTLE, /* there are not @n places */
};

/* The operands of a locked section, which must run on CPU @cpu. */
struct section {
	uint64_t expected, held, done;
	uint32_t limit;
	uint32_t cpu;
};

#if UKMEM_HAVE_RSEQ && defined(__x86_64__)
#define QUEUE_HAVE_SECTIONS 1
#include "queue/section_x86_64.h"
#elif UKMEM_HAVE_RSEQ && defined(__aarch64__)
#define QUEUE_HAVE_SECTIONS 1
#include "queue/section_aarch64.h"
#else
#define QUEUE_HAVE_SECTIONS 0
#define section_enqueue_biased(...)                                                            \
	(enum section_result) no_section(SECTION_FAILED, __VA_ARGS__)
#define section_dequeue_biased section_enqueue_biased
#define section_enqueue_one section_enqueue_biased
#define section_dequeue_one section_enqueue_biased
#define section_enqueue_locked(...) no_section(false, __VA_ARGS__)
#define section_dequeue_locked section_enqueue_locked
#endif

#endif
