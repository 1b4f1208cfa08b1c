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

/* a = the array's address by a table of units, whatever cpu_id is. The entry, which is half as
 * wide, is loaded first, so that the unit can be added from memory. */
#define ARRAY_ADDRESS_BY_CPU                                                                   \
	"movslq %%fs:4(%[rs]), %[t]\n\t"                                                       \
	"movl %[entry], %k[a]\n\t"                                                             \
	"addq (%[units], %[t], 8), %[a]\n\t"                                                   \
	UKMEM_RSEQ_INJECT(1)

/* The same by mm_cid, which is 0 in a thread without a registration. */
#define ARRAY_ADDRESS_BY_CID                                                                   \
	"cmpl $0, %%fs:4(%[rs])\n\t"                                                           \
	"js %l[fail]\n\t"                                                                      \
	"movl %%fs:24(%[rs]), %k[t]\n\t"                                                       \
	"movl %[entry], %k[a]\n\t"                                                             \
	"addq (%[units], %[t], 8), %[a]\n\t"                                                   \
	UKMEM_RSEQ_INJECT(1)

#define ARRAY_TABLE_INPUTS [rs] "r"(rseq), [units] "r"(units), [entry] "m"(*entry)

/* From the array's address to the end of the section. */
#define ARRAY_POP_BODY                                                                         \
	"movq (%[a]), %[h]\n\t"                                                                \
	"movzwl %w[h], %k[t]\n\t"                                                              \
	UKMEM_RSEQ_INJECT(2)                                                                   \
	"addq $0xffff, %[h]\n\t"                                                               \
	"testl $0x80008000, %k[h]\n\t"                                                         \
	"jne %l[fail]\n\t"                                                                     \
	"leaq (%[a], %[t], 8), %[t]\n\t"                                                       \
	"movq 8(%[t]), %[object]\n\t"                                                          \
	UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")                                             \
	UKMEM_RSEQ_ABORT("%l[fail]")

#define ARRAY_PUSH_BODY                                                                        \
	"movq (%[a]), %[h]\n\t"                                                                \
	"movzwl %w[h], %k[t]\n\t"                                                              \
	UKMEM_RSEQ_INJECT(2)                                                                   \
	"cmpw 8(%[a]), %w[h]\n\t"                                                              \
	"jae %l[fail]\n\t"                                                                     \
	"leaq (%[a], %[t], 8), %[t]\n\t"                                                       \
	"movq %[object], 16(%[t])\n\t"                                                         \
	"incq %[h]\n\t"                                                                        \
	UKMEM_RSEQ_COMMIT("movq %[h], (%[a])\n\t")                                             \
	UKMEM_RSEQ_ABORT("%l[fail]")

/* What a failed pop hands out: with a plain NULL, gcc 12 at -O1 would return the section's unset
 * output. */
static always_inline void *array_nothing(void)
{
	void *object = NULL;

	__asm__ volatile("" : "+r"(object));
	return object;
}

static always_inline bool pcpu_array_pop_rseq(const struct ukmem_percpu_state *st,
					      void *array, void **out)
{
	void *object;
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		ARRAY_POP_BODY
		: [object] "=&a"(object), [a] "=&r"(a), [t] "=&r"(t),
		  [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS
		: "memory", "cc"
		: fail);
	*out = object;
	return true;
fail:
	*out = array_nothing();
	return false;
}

static always_inline bool pcpu_array_push_rseq(const struct ukmem_percpu_state *st,
					       void *array, pcpu_entry_t offset, void *object)
{
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"addq %[offset], %[a]\n\t"
		ARRAY_PUSH_BODY
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [offset] "r"((uintptr_t)offset), [object] "r"(object)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

/* A register that a function need not save: gcc 13 to 15 take %rbx here, whose names are short,
 * and save it in front of the fast path. */
#ifdef __clang__
#define ARRAY_TEMP(v) "=&r"(v)
#else
#define ARRAY_TEMP(v) "=&U"(v)
#endif

/* The object may come into a register of an input: it is loaded when none is needed any more. */
#define ARRAY_SECTIONS_BY(what, address)                                                       \
	static always_inline bool pcpu_array_pop_by_##what(                                    \
		const uintptr_t *units, ptrdiff_t rseq, const pcpu_entry_t *entry, void **out) \
	{                                                                                      \
		void *object;                                                                  \
		uintptr_t a, t;                                                                \
		uint64_t h UKMEM_RSEQ_INJECT_TEMP;                                             \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			address                                                                \
			ARRAY_POP_BODY                                                         \
			: [object] "=a"(object), [a] ARRAY_TEMP(a), [t] ARRAY_TEMP(t),         \
			  [h] ARRAY_TEMP(h) UKMEM_RSEQ_INJECT_OPERAND                          \
			: ARRAY_TABLE_INPUTS                                                   \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		*out = object;                                                                 \
		return true;                                                                   \
	fail:                                                                                  \
		*out = array_nothing();                                                        \
		return false;                                                                  \
	}                                                                                      \
                                                                                               \
	static always_inline bool pcpu_array_push_by_##what(                                   \
		const uintptr_t *units, ptrdiff_t rseq, const pcpu_entry_t *entry,             \
		void *object)                                                                  \
	{                                                                                      \
		uintptr_t a, t;                                                                \
		uint64_t h UKMEM_RSEQ_INJECT_TEMP;                                             \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			address                                                                \
			ARRAY_PUSH_BODY                                                        \
			: [a] ARRAY_TEMP(a), [t] ARRAY_TEMP(t),                                \
			  [h] ARRAY_TEMP(h) UKMEM_RSEQ_INJECT_OPERAND                          \
			: ARRAY_TABLE_INPUTS, [object] "r"(object)                             \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		return true;                                                                   \
	fail:                                                                                  \
		return false;                                                                  \
	}

ARRAY_SECTIONS_BY(cpu, ARRAY_ADDRESS_BY_CPU)
ARRAY_SECTIONS_BY(cid, ARRAY_ADDRESS_BY_CID)

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
		"movzwl %w[h], %k[t]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"testw %w[t], %w[t]\n\t"
		"js %l[fail]\n\t" /* stopped */
		"movl %k[h], %k[k]\n\t"
		"notl %k[k]\n\t"
		"shrl $16, %k[k]\n\t"
		"andl $0x7fff, %k[k]\n\t" /* ticks left */
		"movq %[delta], %[u]\n\t"
		"shrq $16, %[u]\n\t"
		"orl %k[u], %k[k]\n\t" /* all bits set if pops are not counted */
		"cmpl %k[t], %k[k]\n\t"
		"cmoval %k[t], %k[k]\n\t"
		"cmpl %k[n], %k[k]\n\t"
		"cmoval %k[n], %k[k]\n\t"
		"testl %k[k], %k[k]\n\t"
		"je %l[fail]\n\t"
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
#undef ARRAY_ADDRESS_BY_CPU
#undef ARRAY_ADDRESS_BY_CID
#undef ARRAY_SECTIONS_BY
#undef ARRAY_TABLE_INPUTS
#undef ARRAY_POP_BODY
#undef ARRAY_PUSH_BODY

#endif
