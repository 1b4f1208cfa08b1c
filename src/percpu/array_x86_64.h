/* SPDX-License-Identifier: MIT */
/* The array's sections for x86-64; specified in array.h. */
#ifndef PERCPU_ARRAY_X86_64_H
#define PERCPU_ARRAY_X86_64_H

#include "percpu/copy_x86_64.h"

/* One instruction a line: */
/* clang-format off */

/*
 * A pop loads two words that the push before it has just stored: the header and the slot.
 * Recent processors forward a stored value at once if load and store address it by a register
 * and a constant, but not if an index register is involved. Hence the "lea" before each access
 * to a slot, and additions instead of (base, index). To add to the header in memory would take
 * longer, too.
 */

/* a = array + index * stride; jumps to label fail for a thread without an index. */
#define ARRAY_ADDRESS                                                                          \
	UKMEM_RSEQ_CHECK("%l[fail]")                                                           \
	"movl %%fs:(%[ix]), %k[a]\n\t"                                                         \
	"imulq %[stride], %[a]\n\t"                                                            \
	"addq %[array], %[a]\n\t"                                                              \
	UKMEM_RSEQ_INJECT(1)

#define ARRAY_INPUTS                                                                           \
	[rs] "r"(st->rseq), [ix] "r"(st->index), [stride] "m"(st->stride),                     \
		[limit] "m"(st->limit), [array] "r"(array)

static always_inline bool pcpu_array_pop_rseq(const struct ukmem_percpu_state *st,
					      void *array, void **out)
{
	void *object;
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"movq (%[a]), %[h]\n\t"
		"movswl %w[h], %k[t]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"testl %k[t], %k[t]\n\t"
		"jle %l[fail]\n\t"
		"leaq (%[a], %[t], 8), %[t]\n\t"
		"movq 8(%[t]), %[object]\n\t"
		"addq $0xffff, %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [object] "=&a"(object), [a] "=&r"(a), [t] "=&r"(t),
		  [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS
		: "memory", "cc"
		: fail);
	*out = object;
	return true;
fail: /* with a plain NULL, gcc 12 at -O1 would return the section's unset output */
	object = NULL;
	__asm__ volatile("" : "+r"(object));
	*out = object;
	return false;
}

static always_inline bool pcpu_array_push_rseq(const struct ukmem_percpu_state *st,
					       void *array, size_t offset, void *object)
{
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"addq %[offset], %[a]\n\t"
		"movq (%[a]), %[h]\n\t"
		"movzwl %w[h], %k[t]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"cmpw 8(%[a]), %w[h]\n\t"
		"jae %l[fail]\n\t"
		"leaq (%[a], %[t], 8), %[t]\n\t"
		"movq %[object], 16(%[t])\n\t"
		"incq %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [offset] "r"(offset), [object] "r"(object)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

static inline unsigned int pcpu_array_pop_bulk_rseq(const struct ukmem_percpu_state *st,
						    void *array, void **out, unsigned int n,
						    int64_t delta)
{
	uintptr_t a, t;
	uint64_t h, o, k, u UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"movq (%[a]), %[h]\n\t"
		"movswl %w[h], %k[t]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"testl %k[t], %k[t]\n\t"
		"jle %l[fail]\n\t"
		"movl %k[n], %k[k]\n\t"
		"cmpl %k[t], %k[k]\n\t"
		"cmoval %k[t], %k[k]\n\t"
		"subq %[k], %[t]\n\t" /* first slot taken */
		"leaq 16(%[a], %[t], 8), %[t]\n\t"
		"movq %[out], %[u]\n\t"
		"movl %k[k], %k[o]\n\t"
		SECTION_COPY("t", "u", "o")
		"movq %[delta], %[t]\n\t"
		"imulq %[k], %[t]\n\t"
		"addq %[t], %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [o] "=&r"(o),
		  [k] "=&r"(k), [u] "=&r"(u) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [out] "r"(out), [n] "r"(n), [delta] "m"(delta)
		: "memory", "cc", "xmm0", "xmm1"
		: fail);
	return (unsigned int)k;
fail: /* as in pop */
	k = 0;
	__asm__ volatile("" : "+r"(k));
	return (unsigned int)k;
}

static inline unsigned int pcpu_array_push_bulk_rseq(const struct ukmem_percpu_state *st,
						     void *array, void *const *in,
						     unsigned int n)
{
	uintptr_t a, t;
	uint64_t h, o, k, u UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"movq (%[a]), %[h]\n\t"
		"movzwl %w[h], %k[t]\n\t"
		"movzwl 8(%[a]), %k[k]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"subl %k[t], %k[k]\n\t"
		"jle %l[fail]\n\t"
		"cmpl %k[n], %k[k]\n\t"
		"cmoval %k[n], %k[k]\n\t"
		"leaq 16(%[a], %[t], 8), %[t]\n\t"
		"movq %[in], %[u]\n\t"
		"movl %k[k], %k[o]\n\t"
		SECTION_COPY("u", "t", "o")
		"addq %[k], %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [o] "=&r"(o),
		  [k] "=&r"(k), [u] "=&r"(u) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [in] "r"(in), [n] "r"(n)
		: "memory", "cc", "xmm0", "xmm1"
		: fail);
	return (unsigned int)k;
fail: /* as in pop */
	k = 0;
	__asm__ volatile("" : "+r"(k));
	return (unsigned int)k;
}

/* clang-format on */

#undef ARRAY_ADDRESS
#undef ARRAY_INPUTS

#endif
