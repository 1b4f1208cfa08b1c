/* SPDX-License-Identifier: MIT */
/*
 * aarch64: the frame of a restartable sequence, and the per-CPU operations in it. Included by
 * <ukmem/percpu.h>, which specifies the sections.
 *
 * Local labels: 1 start, 2 after the commit, 4 abort handler, 5 left without a
 * commit, 7 and 8 an injected delay, 9 descriptor. See rseq(2); the descriptor is struct
 * rseq_cs.
 */
#ifndef UKMEM_PERCPU_OPS_H
#include <ukmem/percpu.h> /* includes this in its place */
#elif !defined(UKMEM_ARCH_RSEQ_AARCH64_H) && defined(__aarch64__)
#define UKMEM_ARCH_RSEQ_AARCH64_H

/* One instruction a line: */
/* clang-format off */

/* "?" puts the descriptor in the function's group: the linker keeps or drops both together. */
#define UKMEM_RSEQ_DESCRIPTOR                                                                  \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                                  \
	".balign 32\n\t"                                                                       \
	"9:\n\t"                                                                               \
	".long 0, 0\n\t"                                                                       \
	".quad 1f, 2f - 1f, 4f\n\t"                                                            \
	".popsection\n\t"

/* Arms the section. [t]: scratch; [rs]: this thread's struct rseq. */
#ifndef UKMEM_RSEQ_ARM
#define UKMEM_RSEQ_ARM                                                                         \
	"adrp %[t], 9b\n\t"                                                                    \
	"add %[t], %[t], :lo12:9b\n\t"                                                         \
	"str %[t], [%[rs], #8]\n\t"
#endif

/* @store: the committing instruction, the last of the section. */
#ifndef UKMEM_RSEQ_COMMIT
#define UKMEM_RSEQ_COMMIT(store) UKMEM_RSEQ_INJECT(3) store "2:\n\t"
#endif

/* The abort handler jumps to @label. The signature in front of it is a brk instruction. */
#define UKMEM_RSEQ_ABORT(label)                                                                \
	".pushsection __rseq_failure, \"ax?\"\n\t"                                             \
	".inst 0xd428bc00\n\t"                                                                 \
	"4:\n\t"                                                                               \
	"b " label "\n\t"                                                                      \
	".popsection\n\t"

#define UKMEM_RSEQ_START UKMEM_RSEQ_DESCRIPTOR UKMEM_RSEQ_ARM "1:\n\t" UKMEM_RSEQ_INJECT(0)

/* Jumps to label @fail unless this thread runs on a CPU that has a unit. */
#define UKMEM_RSEQ_CHECK(fail)                                                                 \
	"ldr %w[a], [%[rs], #4]\n\t"                                                           \
	"cmp %w[a], %w[limit]\n\t"                                                             \
	"b.hs " fail "\n\t"

/* a = the copy's address */
#define UKMEM_RSEQ_ADDRESS                                                                     \
	UKMEM_RSEQ_CHECK("%l[fail]")                                                           \
	"ldr %w[a], [%[ix]]\n\t"                                                               \
	"madd %[a], %[a], %[stride], %[first]\n\t"                                             \
	UKMEM_RSEQ_INJECT(1)

#define UKMEM_RSEQ_INPUTS                                                                      \
	[rs] "r"((char *)__builtin_thread_pointer() + st->rseq),                               \
		[ix] "r"((char *)__builtin_thread_pointer() + st->index),                      \
		[stride] "r"(st->stride), [limit] "r"(st->limit),                              \
		[first] "r"((uintptr_t)handle + (uintptr_t)st->base)

/*
 * Operations with a result. @body computes, with [o] the old value, [n] scratch,
 * [v] and [w] the operands, and commits. Outputs stay unset when a section fails;
 * the empty asm keeps a compiler from assuming they are set.
 */
#define UKMEM_RSEQ_VALUE(name, size, type, ld, m, body)                                        \
	static UKMEM_INLINE int ukmem_rseq_##name##_##size(                                    \
		const struct ukmem_percpu_state *st, void *handle, type v, type w,             \
		uint64_t *result)                                                              \
	{                                                                                      \
		uintptr_t a, t, o, n UKMEM_RSEQ_INJECT_TEMP;                                   \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			UKMEM_RSEQ_ADDRESS                                                     \
			ld " %" m "[o], [%[a]]\n\t"                                            \
			UKMEM_RSEQ_INJECT(2)                                                   \
			body                                                                   \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: [a] "=&r"(a), [t] "=&r"(t), [o] "=&r"(o),                            \
			  [n] "=&r"(n) UKMEM_RSEQ_INJECT_OPERAND                               \
			: UKMEM_RSEQ_INPUTS, [v] "r"(v), [w] "r"(w)                            \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		*result = (type)o;                                                             \
		return 1;                                                                      \
	fail:                                                                                  \
		o = 0;                                                                         \
		__asm__ volatile("" : "+r"(o));                                                \
		*result = o;                                                                   \
		return 0;                                                                      \
	}

/* commit *p op= v */
#define UKMEM_RSEQ_UPDATE(name, insn, size, type, ld, sto, m)                                  \
	static UKMEM_INLINE int ukmem_rseq_##name##_##size(                                    \
		const struct ukmem_percpu_state *st, void *handle, type v)                     \
	{                                                                                      \
		uintptr_t a, t, o UKMEM_RSEQ_INJECT_TEMP;                                      \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			UKMEM_RSEQ_ADDRESS                                                     \
			ld " %" m "[o], [%[a]]\n\t"                                            \
			UKMEM_RSEQ_INJECT(2)                                                   \
			insn "\n\t"                                                            \
			UKMEM_RSEQ_COMMIT(sto " %" m "[o], [%[a]]\n\t")                        \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: [a] "=&r"(a), [t] "=&r"(t), [o] "=&r"(o) UKMEM_RSEQ_INJECT_OPERAND   \
			: UKMEM_RSEQ_INPUTS, [v] "r"(v)                                        \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		return 1;                                                                      \
	fail:                                                                                  \
		return 0;                                                                      \
	}

/* @differ jumps to label 5 unless [o] equals [v] in this width. */
#define UKMEM_RSEQ_SIZE(size, type, ld, sto, m, differ)                                        \
	UKMEM_RSEQ_UPDATE(write, "mov %" m "[o], %" m "[v]", size, type, ld, sto, m)           \
	UKMEM_RSEQ_UPDATE(add, "add %" m "[o], %" m "[o], %" m "[v]", size, type, ld, sto, m)  \
	UKMEM_RSEQ_UPDATE(and, "and %" m "[o], %" m "[o], %" m "[v]", size, type, ld, sto, m)  \
	UKMEM_RSEQ_UPDATE(or, "orr %" m "[o], %" m "[o], %" m "[v]", size, type, ld, sto, m)   \
	UKMEM_RSEQ_UPDATE(xor, "eor %" m "[o], %" m "[o], %" m "[v]", size, type, ld, sto, m)  \
	/* o += v; commit *p = o */                                                            \
	UKMEM_RSEQ_VALUE(add_return, size, type, ld, m,                                        \
		"add %" m "[o], %" m "[o], %" m "[v]\n\t"                                      \
		UKMEM_RSEQ_COMMIT(sto " %" m "[o], [%[a]]\n\t"))                               \
	/* commit *p = v */                                                                    \
	UKMEM_RSEQ_VALUE(xchg, size, type, ld, m,                                              \
		UKMEM_RSEQ_COMMIT(sto " %" m "[v], [%[a]]\n\t"))                               \
	/* if (o == v) commit *p = w */                                                        \
	UKMEM_RSEQ_VALUE(cmpxchg, size, type, ld, m,                                           \
		differ                                                                         \
		UKMEM_RSEQ_COMMIT(sto " %" m "[w], [%[a]]\n\t")                                \
		"5:\n\t")

/* The upper bits of a narrow operand's register are undefined, so compare only its width. */
UKMEM_RSEQ_SIZE(1, uint8_t, "ldrb", "strb", "w",
		"eor %w[n], %w[o], %w[v]\n\t"
		"tst %w[n], #0xff\n\t"
		"b.ne 5f\n\t")
UKMEM_RSEQ_SIZE(2, uint16_t, "ldrh", "strh", "w",
		"eor %w[n], %w[o], %w[v]\n\t"
		"tst %w[n], #0xffff\n\t"
		"b.ne 5f\n\t")
UKMEM_RSEQ_SIZE(4, uint32_t, "ldr", "str", "w",
		"cmp %w[o], %w[v]\n\t"
		"b.ne 5f\n\t")
UKMEM_RSEQ_SIZE(8, uint64_t, "ldr", "str", "x",
		"cmp %[o], %[v]\n\t"
		"b.ne 5f\n\t")

/*
 * The commit is an exclusive store, because a plain store of a pair may be cut in
 * halves by an interrupt. If the exclusive store fails, the section fails.
 */
static UKMEM_INLINE int ukmem_rseq_cmpxchg_double(const struct ukmem_percpu_state *st,
						  void *handle, const uint64_t *oldv,
						  const uint64_t *newv, int *same)
{
	uintptr_t a, t, lo, hi UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		UKMEM_RSEQ_ADDRESS
		"ldxp %[lo], %[hi], [%[a]]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"cmp %[lo], %[old0]\n\t"
		"ccmp %[hi], %[old1], #0, eq\n\t"
		"b.ne %l[differ]\n\t"
		UKMEM_RSEQ_COMMIT("stxp %w[t], %[new0], %[new1], [%[a]]\n\t")
		"cbnz %w[t], %l[fail]\n\t"
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [lo] "=&r"(lo),
		  [hi] "=&r"(hi) UKMEM_RSEQ_INJECT_OPERAND
		: UKMEM_RSEQ_INPUTS, [old0] "r"(oldv[0]), [old1] "r"(oldv[1]),
		  [new0] "r"(newv[0]), [new1] "r"(newv[1])
		: "memory", "cc"
		: fail, differ);
	*same = 1;
	return 1;
differ:
	*same = 0;
	return 1;
fail:
	*same = 0;
	return 0;
}

/* A field of this thread's struct rseq, read once; the kernel writes it at any time. */
static UKMEM_INLINE uint32_t ukmem_rseq_field(ptrdiff_t offset)
{
	return *(volatile uint32_t *)((char *)__builtin_thread_pointer() + offset);
}

/* clang-format on */

#endif
