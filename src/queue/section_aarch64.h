/* SPDX-License-Identifier: MIT */
/* The queue's sections for aarch64; specified in section.h. */
#ifndef QUEUE_SECTION_AARCH64_H
#define QUEUE_SECTION_AARCH64_H

#include "percpu/copy_aarch64.h"

/* One instruction a line: */
/* clang-format off */

/* Moves [wide] pointers between [ptr] and the ring from index [i] on, in one part or two. */
#define QUEUE_MOVE(from, to)                                                                   \
	"mov %w[r], %w[wide]\n\t"                                                              \
	"mov %[u], %[ptr]\n\t"                                                                 \
	"ldr %w[k], [%[side], %c[mask]]\n\t"                                                   \
	"and %w[i], %w[i], %w[k]\n\t"                                                          \
	"30:\n\t"                                                                              \
	"ldr %w[k], [%[side], %c[size]]\n\t"                                                   \
	"sub %w[k], %w[k], %w[i]\n\t"                                                          \
	"cmp %w[k], %w[r]\n\t"                                                                 \
	"csel %w[k], %w[k], %w[r], lo\n\t"                                                     \
	"add %[g], %[side], %[i], lsl #3\n\t"                                                  \
	"add %[g], %[g], %c[ring]\n\t"                                                         \
	"sub %w[r], %w[r], %w[k]\n\t"                                                          \
	SECTION_COPY(from, to, "k")                                                            \
	"mov %w[i], #0\n\t"                                                                    \
	"cbnz %w[r], 30b\n\t"

#define QUEUE_TEMPS                                                                            \
	[t] "=&r"(t), [i] "=&r"(i), [k] "=&r"(k), [r] "=&r"(r), [u] "=&r"(u), [g] "=&r"(g),    \
		[o] "=&r"(o)

#define QUEUE_INPUTS(side_type)                                                                \
	[rs] "r"((char *)__builtin_thread_pointer() + pcpu.rseq), [side] "r"(side),            \
		[wide] "r"((uint64_t)n), [ptr] "r"(ptr),                                       \
		[mask] "i"(offsetof(struct alf_queue_side, mask)),                             \
		[size] "i"(offsetof(struct alf_queue_side, size)),                             \
		[seen] "i"(offsetof(struct alf_queue_side, limit)),                            \
		[slack] "i"(offsetof(struct alf_queue_side, slack)),                           \
		[ring] "i"(sizeof(struct alf_queue) - offsetof(struct alf_queue, side_type))

#define QUEUE_BIASED(name, side_type, other, pointer, from, to)                                \
	static inline enum section_result name(struct alf_queue_side *side, pointer ptr,       \
					       uint32_t n)                                     \
	{                                                                                      \
		uintptr_t t, i, k, r, u, g, o UKMEM_RSEQ_INJECT_TEMP;                          \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			"ldr %w[k], [%[rs], #4]\n\t"                                           \
			"ldr %w[r], [%[limit]]\n\t"                                            \
			"cmp %w[k], %w[r]\n\t"                                                 \
			"b.hs %l[fail]\n\t"                                                    \
			"add %w[k], %w[k], %w[biased]\n\t"                                     \
			"ldar %[t], [%[side]]\n\t"                                             \
			UKMEM_RSEQ_INJECT(1)                                                   \
			"and %w[r], %w[t], #0xffff\n\t"                                        \
			"cmp %w[k], %w[r]\n\t"                                                 \
			"b.ne %l[fail]\n\t"                                                    \
			"lsr %[i], %[t], #32\n\t"                                              \
			"ldr %w[k], [%[side], %c[seen]]\n\t"                                   \
			"sub %w[k], %w[k], %w[i]\n\t"                                          \
			"cmp %w[k], %w[wide]\n\t"                                              \
			"b.hs 26f\n\t"                                                         \
			"ldar %[k], [%[theirs]]\n\t"                                           \
			"lsr %[k], %[k], #32\n\t"                                              \
			"ldr %w[r], [%[side], %c[slack]]\n\t"                                  \
			"add %w[r], %w[r], %w[k]\n\t"                                          \
			"sub %w[k], %w[r], %w[i]\n\t"                                          \
			"cmp %w[k], %w[wide]\n\t"                                              \
			"b.lo %l[little]\n\t"                                                  \
			"str %w[r], [%[side], %c[seen]]\n\t"                                   \
			"26:\n\t"                                                              \
			UKMEM_RSEQ_INJECT(2)                                                   \
			QUEUE_MOVE(from, to)                                                   \
			"add %[t], %[t], %[wide], lsl #32\n\t"                                 \
			UKMEM_RSEQ_COMMIT("stlr %[t], [%[side]]\n\t")                          \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: QUEUE_TEMPS UKMEM_RSEQ_INJECT_OPERAND                                \
			: QUEUE_INPUTS(side_type), [limit] "r"(&pcpu.ending),                  \
			  [biased] "r"(SIDE_BIASED + 1), [theirs] "r"(&(other)->word)          \
			: "memory", "cc"                                                       \
			: fail, little);                                                       \
		return SECTION_DONE;                                                           \
	fail:                                                                                  \
		return SECTION_FAILED;                                                         \
	little:                                                                                \
		return SECTION_LITTLE;                                                         \
	}

#define QUEUE_LOCKED(name, side_type, pointer, from, to)                                       \
	static inline bool name(struct alf_queue_side *side, pointer ptr, uint32_t n,          \
				const struct section *s)                                       \
	{                                                                                      \
		uintptr_t t, i, k, r, u, g, o UKMEM_RSEQ_INJECT_TEMP;                          \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			"ldr %w[k], [%[s], %c[cpu]]\n\t"                                       \
			"ldr %w[r], [%[rs], #4]\n\t"                                           \
			"cmp %w[k], %w[r]\n\t"                                                 \
			"b.ne %l[fail]\n\t"                                                    \
			"ldr %w[r], [%[ids]]\n\t"                                              \
			"cmp %w[k], %w[r]\n\t"                                                 \
			"b.hs %l[fail]\n\t"                                                    \
			"ldr %[i], [%[s], %c[expected]]\n\t"                                   \
			"ldr %[g], [%[s], %c[held]]\n\t"                                       \
			UKMEM_RSEQ_INJECT(1)                                                   \
			"12:\n\t"                                                              \
			"ldaxr %[t], [%[side]]\n\t"                                            \
			"cmp %[t], %[i]\n\t"                                                   \
			"b.ne %l[fail]\n\t"                                                    \
			"stxr %w[k], %[g], [%[side]]\n\t"                                      \
			"cbnz %w[k], 12b\n\t"                                                  \
			"lsr %[i], %[i], #32\n\t"                                              \
			"ldr %w[k], [%[s], %c[new_limit]]\n\t"                                 \
			"str %w[k], [%[side], %c[seen]]\n\t"                                   \
			UKMEM_RSEQ_INJECT(2)                                                   \
			QUEUE_MOVE(from, to)                                                   \
			"ldr %[t], [%[s], %c[done]]\n\t"                                       \
			UKMEM_RSEQ_COMMIT("stlr %[t], [%[side]]\n\t")                          \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: QUEUE_TEMPS UKMEM_RSEQ_INJECT_OPERAND                                \
			: QUEUE_INPUTS(side_type), [s] "r"(s), [ids] "r"(&pcpu.ending),        \
			  [cpu] "i"(offsetof(struct section, cpu)),                            \
			  [expected] "i"(offsetof(struct section, expected)),                  \
			  [held] "i"(offsetof(struct section, held)),                          \
			  [done] "i"(offsetof(struct section, done)),                          \
			  [new_limit] "i"(offsetof(struct section, limit))                     \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		return true;                                                                   \
	fail:                                                                                  \
		return false;                                                                  \
	}

QUEUE_BIASED(section_enqueue_biased, producer, side + 1, void *const *, "u", "g")
QUEUE_BIASED(section_dequeue_biased, consumer, side - 1, void **, "g", "u")
QUEUE_LOCKED(section_enqueue_locked, producer, void *const *, "u", "g")
QUEUE_LOCKED(section_dequeue_locked, consumer, void **, "g", "u")

/* clang-format on */

#define section_enqueue_one section_enqueue_biased
#define section_dequeue_one section_dequeue_biased

#endif
