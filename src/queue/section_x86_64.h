/* SPDX-License-Identifier: MIT */
/* The queue's sections for x86-64; specified in section.h. */
#ifndef QUEUE_SECTION_X86_64_H
#define QUEUE_SECTION_X86_64_H

#include "percpu/copy_x86_64.h"

/* One instruction a line: */
/* clang-format off */

/* Moves [n] pointers between [ptr] and the ring from index [i] on, in one part or two. */
#define QUEUE_MOVE(from, to)                                                                   \
	"movl %[n], %k[r]\n\t"                                                                 \
	"movq %[ptr], %[u]\n\t"                                                                \
	"andl %c[mask](%[side]), %k[i]\n\t"                                                    \
	"30:\n\t"                                                                              \
	"movl %c[size](%[side]), %k[k]\n\t"                                                    \
	"subl %k[i], %k[k]\n\t"                                                                \
	"cmpl %k[r], %k[k]\n\t"                                                                \
	"cmoval %k[r], %k[k]\n\t"                                                              \
	"leaq %c[ring](%[side], %[i], 8), %[g]\n\t"                                            \
	"subl %k[k], %k[r]\n\t"                                                                \
	SECTION_COPY(from, to, "k")                                                            \
	"xorl %k[i], %k[i]\n\t"                                                                \
	"testl %k[r], %k[r]\n\t"                                                               \
	"jnz 30b\n\t"

/* Moves one pointer. */
#define QUEUE_MOVE_IN                                                                          \
	"andl %c[mask](%[side]), %k[i]\n\t"                                                    \
	"movq (%[ptr]), %[r]\n\t"                                                              \
	"movq %[r], %c[ring](%[side], %[i], 8)\n\t"

#define QUEUE_MOVE_OUT                                                                         \
	"andl %c[mask](%[side]), %k[i]\n\t"                                                    \
	"movq %c[ring](%[side], %[i], 8), %[r]\n\t"                                            \
	"movq %[r], (%[ptr])\n\t"

#define QUEUE_TEMPS_ONE [t] "=&r"(t), [i] "=&r"(i), [k] "=&r"(k), [r] "=&r"(r)
#define QUEUE_TEMPS QUEUE_TEMPS_ONE, [u] "=&r"(u), [g] "=&r"(g)

#define QUEUE_INPUTS(side_type, n_is)                                                          \
	[rs] "r"(pcpu.rseq), [side] "r"(side), [n] n_is, [ptr] "r"(ptr),                       \
		[mask] "i"(offsetof(struct alf_queue_side, mask)),                             \
		[size] "i"(offsetof(struct alf_queue_side, size)),                             \
		[seen] "i"(offsetof(struct alf_queue_side, limit)),                            \
		[slack] "i"(offsetof(struct alf_queue_side, slack)),                           \
		[ring] "i"(sizeof(struct alf_queue) - offsetof(struct alf_queue, side_type))

#define QUEUE_BIASED(name, side_type, other_type, pointer, move, temps, n_is)                  \
	static always_inline enum section_result name(struct alf_queue_side *side,             \
						      pointer ptr, uint32_t n)                 \
	{                                                                                      \
		uintptr_t t, i, k, r, u, g UKMEM_RSEQ_INJECT_TEMP;                             \
                                                                                               \
		(void)u, (void)g, (void)n;                                                     \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			"movl %%fs:4(%[rs]), %k[k]\n\t"                                        \
			"cmpl %[limit], %k[k]\n\t"                                             \
			"jae %l[fail]\n\t"                                                     \
			"addl %[biased], %k[k]\n\t"                                            \
			"movq (%[side]), %[t]\n\t"                                             \
			UKMEM_RSEQ_INJECT(1)                                                   \
			"cmpw %w[k], %w[t]\n\t"                                                \
			"jne %l[fail]\n\t"                                                     \
			"movq %[t], %[i]\n\t"                                                  \
			"shrq $32, %[i]\n\t"                                                   \
			"movl %c[seen](%[side]), %k[k]\n\t"                                    \
			"subl %k[i], %k[k]\n\t"                                                \
			"cmpl %[n], %k[k]\n\t"                                                 \
			"jae 26f\n\t"                                                          \
			"movl %c[other](%[side]), %k[k]\n\t"                                   \
			"addl %c[slack](%[side]), %k[k]\n\t"                                   \
			"movl %k[k], %k[r]\n\t"                                                \
			"subl %k[i], %k[k]\n\t"                                                \
			"cmpl %[n], %k[k]\n\t"                                                 \
			"jb %l[little]\n\t"                                                    \
			"movl %k[r], %c[seen](%[side])\n\t"                                    \
			"26:\n\t"                                                              \
			UKMEM_RSEQ_INJECT(2)                                                   \
			move                                                                   \
			"movl %[n], %k[k]\n\t"                                                 \
			"shlq $32, %[k]\n\t"                                                   \
			"addq %[k], %[t]\n\t"                                                  \
			UKMEM_RSEQ_COMMIT("movq %[t], (%[side])\n\t")                          \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: temps UKMEM_RSEQ_INJECT_OPERAND                                      \
			: QUEUE_INPUTS(side_type, n_is), [limit] "m"(pcpu.ending),                   \
			  [biased] "i"(SIDE_BIASED + 1),                                       \
			  [other] "i"(offsetof(struct alf_queue, other_type.word) + 4 -        \
				      offsetof(struct alf_queue, side_type))                   \
			: "memory", "cc", "xmm0", "xmm1"                                       \
			: fail, little);                                                       \
		return SECTION_DONE;                                                           \
	fail:                                                                                  \
		return SECTION_FAILED;                                                         \
	little:                                                                                \
		return SECTION_LITTLE;                                                         \
	}

#define QUEUE_LOCKED(name, side_type, pointer, from, to)                                       \
	static inline bool name(struct alf_queue_side *side, pointer ptr, uint32_t n,        \
				  const struct section *s)                                     \
	{                                                                                      \
		uintptr_t t, i, k, r, u, g, expected = s->expected UKMEM_RSEQ_INJECT_TEMP;     \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			"movl %%fs:4(%[rs]), %k[k]\n\t"                                        \
			"cmpl %[ids], %k[k]\n\t"                                               \
			"jae %l[fail]\n\t"                                                     \
			"cmpl %c[cpu](%[s]), %k[k]\n\t"                                        \
			"jne %l[fail]\n\t"                                                     \
			"movq %[expected], %[i]\n\t"                                           \
			"shrq $32, %[i]\n\t"                                                   \
			"movq %c[held](%[s]), %[t]\n\t"                                        \
			UKMEM_RSEQ_INJECT(1)                                                   \
			"lock cmpxchgq %[t], (%[side])\n\t"                                    \
			"jne %l[fail]\n\t"                                                     \
			"movl %c[new_limit](%[s]), %k[k]\n\t"                                  \
			"movl %k[k], %c[seen](%[side])\n\t"                                    \
			UKMEM_RSEQ_INJECT(2)                                                   \
			QUEUE_MOVE(from, to)                                                   \
			"movq %c[done](%[s]), %[t]\n\t"                                        \
			UKMEM_RSEQ_COMMIT("movq %[t], (%[side])\n\t")                          \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: QUEUE_TEMPS, [expected] "+&a"(expected) UKMEM_RSEQ_INJECT_OPERAND    \
			: QUEUE_INPUTS(side_type, "r"(n)), [s] "r"(s), [ids] "m"(pcpu.ending),   \
			  [cpu] "i"(offsetof(struct section, cpu)),                            \
			  [held] "i"(offsetof(struct section, held)),                          \
			  [done] "i"(offsetof(struct section, done)),                          \
			  [new_limit] "i"(offsetof(struct section, limit))                     \
			: "memory", "cc", "xmm0", "xmm1"                                       \
			: fail);                                                               \
		return true;                                                                   \
	fail:                                                                                  \
		return false;                                                                  \
	}

QUEUE_BIASED(section_enqueue_biased, producer, consumer, void *const *, QUEUE_MOVE("u", "g"),
	     QUEUE_TEMPS, "r"(n))
QUEUE_BIASED(section_dequeue_biased, consumer, producer, void **, QUEUE_MOVE("g", "u"),
	     QUEUE_TEMPS, "r"(n))
QUEUE_BIASED(section_enqueue_one, producer, consumer, void *const *, QUEUE_MOVE_IN,
	     QUEUE_TEMPS_ONE, "i"(1))
QUEUE_BIASED(section_dequeue_one, consumer, producer, void **, QUEUE_MOVE_OUT,
	     QUEUE_TEMPS_ONE, "i"(1))
QUEUE_LOCKED(section_enqueue_locked, producer, void *const *, "u", "g")
QUEUE_LOCKED(section_dequeue_locked, consumer, void **, "g", "u")

/* clang-format on */

#endif
