/* SPDX-License-Identifier: MIT */
/* The array's sections for aarch64; specified in array.h. */
#ifndef PERCPU_ARRAY_AARCH64_H
#define PERCPU_ARRAY_AARCH64_H

#include "percpu/copy_aarch64.h"

/* One instruction a line: */
/* clang-format off */

/* a = array + index * stride; jumps to label fail for a thread without an index. */
#define ARRAY_ADDRESS                                                                          \
	UKMEM_RSEQ_CHECK("%l[fail]")                                                           \
	"ldr %w[a], [%[ix]]\n\t"                                                               \
	"madd %[a], %[a], %[stride], %[array]\n\t"                                             \
	UKMEM_RSEQ_INJECT(1)

#define ARRAY_INPUTS                                                                           \
	[rs] "r"((char *)__builtin_thread_pointer() + st->rseq),                               \
		[ix] "r"((char *)__builtin_thread_pointer() + st->index),                      \
		[stride] "r"(st->stride), [limit] "r"(st->limit), [array] "r"(array)

/* a = the array's address by a table of units, whatever cpu_id is. */
#define ARRAY_ADDRESS_BY_CPU                                                                   \
	"ldrsw %[a], [%[rs], #4]\n\t"                                                          \
	"ldr %[a], [%[units], %[a], lsl #3]\n\t"                                               \
	"ldr %w[t], %[entry]\n\t"                                                               \
	"add %[a], %[a], %[t]\n\t"                                                             \
	UKMEM_RSEQ_INJECT(1)

/* The same by mm_cid, which is 0 in a thread without a registration. */
#define ARRAY_ADDRESS_BY_CID                                                                   \
	"ldr %w[a], [%[rs], #4]\n\t"                                                           \
	"tbnz %w[a], #31, %l[fail]\n\t"                                                        \
	"ldr %w[a], [%[rs], #24]\n\t"                                                          \
	"ldr %[a], [%[units], %[a], lsl #3]\n\t"                                               \
	"ldr %w[t], %[entry]\n\t"                                                               \
	"add %[a], %[a], %[t]\n\t"                                                             \
	UKMEM_RSEQ_INJECT(1)

#define ARRAY_TABLE_INPUTS                                                                     \
	[rs] "r"((char *)__builtin_thread_pointer() + rseq), [units] "r"(units),               \
		[entry] "m"(*entry)

/* From the array's address to the end of the section. */
#define ARRAY_POP_BODY                                                                         \
	"ldr %[h], [%[a]]\n\t"                                                                 \
	"uxth %w[t], %w[h]\n\t"                                                                \
	UKMEM_RSEQ_INJECT(2)                                                                   \
	"mov %[object], #0xffff\n\t"                                                           \
	"add %[h], %[h], %[object]\n\t"                                                        \
	"tst %w[h], #0x80008000\n\t"                                                           \
	"b.ne %l[fail]\n\t"                                                                    \
	"add %[t], %[a], %[t], lsl #3\n\t"                                                     \
	"ldr %[object], [%[t], #8]\n\t"                                                        \
	UKMEM_RSEQ_COMMIT("str %[h], [%[a]]\n\t")                                              \
	UKMEM_RSEQ_ABORT("%l[fail]")

#define ARRAY_PUSH_BODY                                                                        \
	"ldr %[h], [%[a]]\n\t"                                                                 \
	"uxth %w[t], %w[h]\n\t"                                                                \
	UKMEM_RSEQ_INJECT(2)                                                                   \
	"ldrh %w[c], [%[a], #8]\n\t"                                                           \
	"cmp %w[t], %w[c]\n\t"                                                                 \
	"b.hs %l[fail]\n\t"                                                                    \
	"add %[t], %[a], %[t], lsl #3\n\t"                                                     \
	"str %[object], [%[t], #16]\n\t"                                                       \
	"add %[h], %[h], #1\n\t"                                                               \
	UKMEM_RSEQ_COMMIT("str %[h], [%[a]]\n\t")                                              \
	UKMEM_RSEQ_ABORT("%l[fail]")

/* What a failed pop hands out: with a plain NULL, gcc 12 at -O1 would return the section's unset
 * output. */
static always_inline void *array_nothing(void)
{
	void *object = NULL;

	__asm__ volatile("" : "+r"(object));
	return object;
}

static always_inline bool pcpu_array_pop_rseq(const struct ukmem_percpu_state *st, void *array,
					      void **out)
{
	void *object;
	uintptr_t a, t;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		ARRAY_POP_BODY
		: [object] "=&r"(object), [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS
		: "memory", "cc"
		: fail);
	*out = object;
	return true;
fail:
	*out = array_nothing();
	return false;
}

static always_inline bool pcpu_array_push_rseq(const struct ukmem_percpu_state *st, void *array,
					       pcpu_entry_t offset, void *object)
{
	uintptr_t a, t, c;
	uint64_t h UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"add %[a], %[a], %[offset]\n\t"
		ARRAY_PUSH_BODY
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [c] "=&r"(c) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [offset] "r"((uintptr_t)offset), [object] "r"(object)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

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
			: [object] "=r"(object), [a] "=&r"(a), [t] "=&r"(t),                   \
			  [h] "=&r"(h) UKMEM_RSEQ_INJECT_OPERAND                               \
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
		uintptr_t a, t, c;                                                             \
		uint64_t h UKMEM_RSEQ_INJECT_TEMP;                                             \
                                                                                               \
		__asm__ goto volatile(                                                         \
			UKMEM_RSEQ_START                                                       \
			address                                                                \
			ARRAY_PUSH_BODY                                                        \
			: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h),                            \
			  [c] "=&r"(c) UKMEM_RSEQ_INJECT_OPERAND                               \
			: ARRAY_TABLE_INPUTS, [object] "r"(object)                             \
			: "memory", "cc"                                                       \
			: fail);                                                               \
		return true;                                                                   \
	fail:                                                                                  \
		return false;                                                                  \
	}

ARRAY_SECTIONS_BY(cpu, ARRAY_ADDRESS_BY_CPU)
ARRAY_SECTIONS_BY(cid, ARRAY_ADDRESS_BY_CID)

static inline unsigned int pcpu_array_pop_bulk_rseq(const struct ukmem_percpu_state *st, void *array,
						    void **out, unsigned int n, int64_t delta)
{
	uintptr_t a, t, i, u;
	uint64_t h, o, k UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"ldr %[h], [%[a]]\n\t"
		"uxth %w[t], %w[h]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"tbnz %w[t], #15, %l[fail]\n\t" /* stopped */
		"mvn %w[k], %w[h], lsr #16\n\t"
		"and %w[k], %w[k], #0x7fff\n\t" /* ticks left */
		"lsr %[o], %[delta], #16\n\t"
		"orr %w[k], %w[k], %w[o]\n\t" /* all bits set if pops are not counted */
		"cmp %w[k], %w[t]\n\t"
		"csel %w[k], %w[k], %w[t], lo\n\t"
		"cmp %w[k], %w[n]\n\t"
		"csel %w[k], %w[k], %w[n], lo\n\t"
		"cbz %w[k], %l[fail]\n\t"
		"sub %w[t], %w[t], %w[k]\n\t" /* first slot taken */
		"add %[t], %[a], %[t], lsl #3\n\t"
		"add %[t], %[t], #16\n\t"
		"mov %[u], %[out]\n\t"
		"mov %w[i], %w[k]\n\t"
		SECTION_COPY("t", "u", "i")
		"madd %[h], %[k], %[delta], %[h]\n\t"
		UKMEM_RSEQ_COMMIT("str %[h], [%[a]]\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [i] "=&r"(i), [o] "=&r"(o),
		  [k] "=&r"(k), [u] "=&r"(u) UKMEM_RSEQ_INJECT_OPERAND
		: ARRAY_INPUTS, [out] "r"(out), [n] "r"(n), [delta] "r"(delta)
		: "memory", "cc"
		: fail);
	return (unsigned int)k;
fail: /* as in pop */
	k = 0;
	__asm__ volatile("" : "+r"(k));
	return (unsigned int)k;
}

static inline unsigned int pcpu_array_push_bulk_rseq(const struct ukmem_percpu_state *st, void *array,
						     void *const *in, unsigned int n)
{
	uintptr_t a, t, i, u;
	uint64_t h, o, k UKMEM_RSEQ_INJECT_TEMP;

	__asm__ goto volatile(
		UKMEM_RSEQ_START
		ARRAY_ADDRESS
		"ldr %[h], [%[a]]\n\t"
		"uxth %w[t], %w[h]\n\t"
		UKMEM_RSEQ_INJECT(2)
		"ldrh %w[k], [%[a], #8]\n\t"
		"subs %w[k], %w[k], %w[t]\n\t"
		"b.le %l[fail]\n\t"
		"cmp %w[k], %w[n]\n\t"
		"csel %w[k], %w[k], %w[n], lo\n\t"
		"add %[t], %[a], %[t], lsl #3\n\t"
		"add %[t], %[t], #16\n\t"
		"mov %[u], %[in]\n\t"
		"mov %w[i], %w[k]\n\t"
		SECTION_COPY("u", "t", "i")
		"add %[h], %[h], %[k]\n\t"
		UKMEM_RSEQ_COMMIT("str %[h], [%[a]]\n\t")
		UKMEM_RSEQ_ABORT("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t), [h] "=&r"(h), [i] "=&r"(i), [o] "=&r"(o),
		  [k] "=&r"(k), [u] "=&r"(u) UKMEM_RSEQ_INJECT_OPERAND
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
#undef ARRAY_ADDRESS_BY_CPU
#undef ARRAY_ADDRESS_BY_CID
#undef ARRAY_SECTIONS_BY
#undef ARRAY_TABLE_INPUTS
#undef ARRAY_POP_BODY
#undef ARRAY_PUSH_BODY

#endif
