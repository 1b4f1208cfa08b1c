/* SPDX-License-Identifier: MIT */
/*
 * x86-64: the frame of a restartable sequence, and the per-CPU operations in it. Included by
 * <ukmem/percpu.h>, which specifies the sections.
 *
 * Local labels: 1 start, 2 after the commit, 4 abort handler, 5 left without a
 * commit, 7 an injected delay, 9 descriptor. See rseq(2); the descriptor is struct rseq_cs.
 */
#ifndef UKMEM_PERCPU_OPS_H
#include <ukmem/percpu.h> /* includes this in its place */
#elif !defined(UKMEM_ARCH_RSEQ_X86_64_H) && defined(__x86_64__)
#define UKMEM_ARCH_RSEQ_X86_64_H

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

/* Arms the section. [t]: scratch; [rs]: thread pointer -> struct rseq. */
#ifndef UKMEM_RSEQ_ARM
#define UKMEM_RSEQ_ARM                                                                         \
	"leaq 9b(%%rip), %[t]\n\t"                                                             \
	"movq %[t], %%fs:8(%[rs])\n\t"
#endif

/* @store: the committing instruction, the last of the section. */
#ifndef UKMEM_RSEQ_COMMIT
#define UKMEM_RSEQ_COMMIT(store) UKMEM_RSEQ_INJECT(3) store "2:\n\t"
#endif

/*
 * The abort handler jumps to @label. The signature in front of it is the displacement
 * of a ud1 instruction, so that disassemblers keep step.
 */
#define UKMEM_RSEQ_ABORT(label)                                                                \
	".pushsection __rseq_failure, \"ax?\"\n\t"                                             \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                           \
	".long 0x53053053\n\t"                                                                 \
	"4:\n\t"                                                                               \
	"jmp " label "\n\t"                                                                    \
	".popsection\n\t"

#define UKMEM_RSEQ_START UKMEM_RSEQ_DESCRIPTOR UKMEM_RSEQ_ARM "1:\n\t" UKMEM_RSEQ_INJECT(0)

/* Jumps to label @fail unless this thread runs on a CPU that has a unit. */
#define UKMEM_RSEQ_CHECK(fail)                                                                 \
	"movl %%fs:4(%[rs]), %k[a]\n\t"                                                        \
	"cmpl %[limit], %k[a]\n\t"                                                             \
	"jae " fail "\n\t"

/*
 * a = the copy's address, in a register by itself: some CPUs forward a store to the
 * next load of the same variable at once if both name it so, and only then.
 */
#define UKMEM_RSEQ_ADDRESS                                                                     \
	UKMEM_RSEQ_CHECK("%l[fail]")                                                           \
	"movl %%fs:(%[ix]), %k[a]\n\t"                                                         \
	"imulq %[stride], %[a]\n\t"                                                            \
	"addq %[first], %[a]\n\t"                                                              \
	UKMEM_RSEQ_INJECT(1)

#define UKMEM_RSEQ_INPUTS                                                                      \
	[rs] "r"(st->rseq), [ix] "r"(st->index), [stride] "rm"(st->stride),                    \
		[limit] "rm"(st->limit), [first] "r"((uintptr_t)handle + (uintptr_t)st->base)

/* commit *p op= v */
#define UKMEM_RSEQ_UPDATE(name, insn, size, type, m, imm)                                      \
	static UKMEM_INLINE int ukmem_rseq_##name##_##size(                                    \
		const struct ukmem_percpu_state *st, void *handle, type v)                     \
	{                                                                                      \
		uintptr_t a, t UKMEM_RSEQ_INJECT_TEMP;                                         \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			UKMEM_RSEQ_ADDRESS                                                     \
			UKMEM_RSEQ_COMMIT(insn " %" m "[v], (%[a])\n\t")                 \
			UKMEM_RSEQ_ABORT("%l[fail]")                                           \
			: [a] "=&r"(a), [t] "=&r"(t) UKMEM_RSEQ_INJECT_OPERAND                 \
			: UKMEM_RSEQ_INPUTS, [v] imm(v)                                        \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		return 1;                                                                      \
	fail:                                                                                  \
		return 0;                                                                      \
	}

/*
 * Operations with a result. @body computes, with [o] the old value in a register,
 * [n] scratch, [v] and [w] the operands, and commits. Outputs stay unset when a
 * section fails; the empty asm keeps a compiler from assuming they are set
 * (gcc 12 would, at -O1).
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
			ld " (%[a]), %" m "[o]\n\t"                                      \
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

#define UKMEM_RSEQ_SIZE(size, type, s, m, imm)                                                 \
	UKMEM_RSEQ_UPDATE(write, "mov" s, size, type, m, imm)                                  \
	UKMEM_RSEQ_UPDATE(add, "add" s, size, type, m, imm)                                    \
	UKMEM_RSEQ_UPDATE(and, "and" s, size, type, m, imm)                                    \
	UKMEM_RSEQ_UPDATE(or, "or" s, size, type, m, imm)                                      \
	UKMEM_RSEQ_UPDATE(xor, "xor" s, size, type, m, imm)                                    \
	/* o += v; commit *p = o */                                                            \
	UKMEM_RSEQ_VALUE(add_return, size, type, "mov" s, m,                                   \
		"add" s " %" m "[v], %" m "[o]\n\t"                                            \
		UKMEM_RSEQ_COMMIT("mov" s " %" m "[o], (%[a])\n\t"))                     \
	/* commit *p = v */                                                                    \
	UKMEM_RSEQ_VALUE(xchg, size, type, "mov" s, m,                                         \
		UKMEM_RSEQ_COMMIT("mov" s " %" m "[v], (%[a])\n\t"))                     \
	/* if (o == v) commit *p = w */                                                        \
	UKMEM_RSEQ_VALUE(cmpxchg, size, type, "mov" s, m,                                      \
		"cmp" s " %" m "[v], %" m "[o]\n\t"                                            \
		"jne 5f\n\t"                                                                   \
		UKMEM_RSEQ_COMMIT("mov" s " %" m "[w], (%[a])\n\t")                            \
		"5:\n\t")

UKMEM_RSEQ_SIZE(1, uint8_t, "b", "b", "qi")
UKMEM_RSEQ_SIZE(2, uint16_t, "w", "w", "ri")
UKMEM_RSEQ_SIZE(4, uint32_t, "l", "k", "ri")
UKMEM_RSEQ_SIZE(8, uint64_t, "q", "q", "re")

#ifdef __SSE2__

typedef long long ukmem_two_words __attribute__((__vector_size__(16)));

/* if (p[0] == old[0] && p[1] == old[1]) commit both words, by one store of sixteen bytes */
static UKMEM_INLINE int ukmem_rseq_cmpxchg_double(const struct ukmem_percpu_state *st,
						  void *handle, const uint64_t *oldv,
						  const uint64_t *newv, int *same)
{
	ukmem_two_words both = { (long long)newv[0], (long long)newv[1] };
	uintptr_t a, t UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		UKMEM_RSEQ_ADDRESS
		"cmpq %[old0], (%[a])\n\t"
		"jne %l[differ]\n\t"
		"cmpq %[old1], 8(%[a])\n\t"
		"jne %l[differ]\n\t"
		UKMEM_RSEQ_COMMIT("movaps %[both], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t) UKMEM_RSEQ_INJECT_OPERAND
		: UKMEM_RSEQ_INPUTS, [old0] "r"(oldv[0]), [old1] "r"(oldv[1]), [both] "x"(both)
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

#else

/* Without SSE2 there is no store of sixteen bytes, so this fails into the library. */
static UKMEM_INLINE int ukmem_rseq_cmpxchg_double(const struct ukmem_percpu_state *st,
						  void *handle, const uint64_t *oldv,
						  const uint64_t *newv, int *same)
{
	(void)st;
	(void)handle;
	(void)oldv;
	(void)newv;
	*same = 0;
	return 0;
}

#endif

/* A field of this thread's struct rseq, read once; the kernel writes it at any time. */
static UKMEM_INLINE uint32_t ukmem_rseq_field(ptrdiff_t offset)
{
	uint32_t field;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(field) : "r"(offset));
	return field;
}

/* clang-format on */

#endif
