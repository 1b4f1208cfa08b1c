/* SPDX-License-Identifier: MIT */
/* The array's critical sections for x86-64; specified in array.h. */
#ifndef PERCPU_ARRAY_X86_64_H
#define PERCPU_ARRAY_X86_64_H

/* One instruction a line: */
/* clang-format off */

/* a = handle + index * stride, or to label fail for a thread without an index. */
#define ARRAY_ADDRESS                                                                          \
	UKMEM_RSEQ_CHECK("%l[fail]")                                                           \
	"movl %%fs:(%[ix]), %k[a]\n\t"                                                         \
	"imulq %[stride], %[a]\n\t"                                                            \
	"addq %[handle], %[a]\n\t"                                                             \
	UKMEM_RSEQ_INJECT(1)

#define ARRAY_INPUTS                                                                           \
	[rs] "r"(st->rseq), [ix] "r"(st->index), [stride] "m"(st->stride),                     \
		[limit] "m"(st->limit), [handle] "r"(handle)

static always_inline void *pcpu_array_pop_rseq(const struct ukmem_percpu_state *st,
					       void *handle)
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
		"movq 8(%[a], %[t], 8), %[object]\n\t"
		"addq $0xffff, %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [object] "=&a"(object), [a] "=&r"(a), [t] "=&r"(t),
		  [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS
		: "memory", "cc"
		: fail);
	return object;
fail: /* gcc 12 at -O1 would return the section's unset output for a plain NULL */
	object = NULL;
	__asm__ volatile("" : "+r"(object));
	return object;
}

static always_inline bool pcpu_array_push_rseq(const struct ukmem_percpu_state *st,
					       void *handle, void *object)
{
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"movq (%[a]), %[h]\n\t"
		"movzwl %w[h], %k[t]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"cmpw 8(%[a]), %w[h]\n\t"
		"jae %l[fail]\n\t"
		"movq %[object], 16(%[a], %[t], 8)\n\t"
		"incq %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [object] "r"(object)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

static inline unsigned int pcpu_array_pop_bulk_rseq(const struct ukmem_percpu_state *st,
						    void *handle, void **out, unsigned int n,
						    int64_t delta)
{
	uintptr_t a, t, i;
	uint64_t h, o, k UKMEM_RSEQ_INJECT_TEMP;

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
		"xorl %k[i], %k[i]\n\t"
		"3:\n\t"
		"movq (%[t], %[i], 8), %[o]\n\t"
		"movq %[o], (%[out], %[i], 8)\n\t"
		"incq %[i]\n\t"
		"cmpq %[k], %[i]\n\t"
		"jb 3b\n\t"
		"movq %[delta], %[t]\n\t"
		"imulq %[k], %[t]\n\t"
		"addq %[t], %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [i] "=&r"(i), [o] "=&r"(o),
		  [k] "=&r"(k) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [out] "r"(out), [n] "r"(n), [delta] "m"(delta)
		: "memory", "cc"
		: fail);
	return (unsigned int)k;
fail: /* as in pop */
	k = 0;
	__asm__ volatile("" : "+r"(k));
	return (unsigned int)k;
}

static inline unsigned int pcpu_array_push_bulk_rseq(const struct ukmem_percpu_state *st,
						     void *handle, void *const *in,
						     unsigned int n)
{
	uintptr_t a, t, i;
	uint64_t h, o, k UKMEM_RSEQ_INJECT_TEMP;

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
		"xorl %k[i], %k[i]\n\t"
		"3:\n\t"
		"movq (%[in], %[i], 8), %[o]\n\t"
		"movq %[o], (%[t], %[i], 8)\n\t"
		"incq %[i]\n\t"
		"cmpq %[k], %[i]\n\t"
		"jb 3b\n\t"
		"addq %[k], %[h]\n\t"
		UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [i] "=&r"(i), [o] "=&r"(o),
		  [k] "=&r"(k) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [in] "r"(in), [n] "r"(n)
		: "memory", "cc"
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
