/* SPDX-License-Identifier: MIT */
/*
 * The sections, one a function. check_sections.py goes by the names: section_,
 * the operation, the bytes that its commit stores.
 *
 * Operands come as 64 bits and are cut to the type on the way in, which leaves
 * anything in the upper bits of the registers that the section gets.
 */
#include "sections.h"

#define UPDATE(op, size, type)                                                                 \
	static noinline int section_##op##_##size(void *handle, uint64_t v, uint64_t w,        \
						  uint64_t *result)                            \
	{                                                                                      \
		(void)w;                                                                       \
		(void)result;                                                                  \
		return ukmem_rseq_##op##_##size(&pcpu, handle, (type)v);                       \
	}

#define VALUE(op, size, type)                                                                  \
	static noinline int section_##op##_##size(void *handle, uint64_t v, uint64_t w,        \
						  uint64_t *result)                            \
	{                                                                                      \
		return ukmem_rseq_##op##_##size(&pcpu, handle, (type)v, (type)w, result);      \
	}

#define SIZE(size, type)                                                                       \
	UPDATE(write, size, type)                                                              \
	UPDATE(add, size, type)                                                                \
	UPDATE(and, size, type)                                                                \
	UPDATE(or, size, type)                                                                 \
	UPDATE(xor, size, type)                                                                \
	VALUE(add_return, size, type)                                                          \
	VALUE(xchg, size, type)                                                                \
	VALUE(cmpxchg, size, type)

SIZE(1, uint8_t)
SIZE(2, uint16_t)
SIZE(4, uint32_t)
SIZE(8, uint64_t)

#define ENTRY(OP, op, size)                                                                    \
	{                                                                                      \
		"section_" #op "_" #size, UKMEM_OP_##OP, size, section_##op##_##size           \
	}
#define ENTRIES(size)                                                                          \
	ENTRY(WRITE, write, size), ENTRY(ADD, add, size), ENTRY(AND, and, size),               \
		ENTRY(OR, or, size), ENTRY(XOR, xor, size),                                    \
		ENTRY(ADD_RETURN, add_return, size), ENTRY(XCHG, xchg, size),                  \
		ENTRY(CMPXCHG, cmpxchg, size)

const struct section sections[] = { ENTRIES(1), ENTRIES(2), ENTRIES(4), ENTRIES(8) };
const unsigned int nr_sections = ARRAY_SIZE(sections);

int section_cmpxchg_double_16(void *handle, const uint64_t *oldv, const uint64_t *newv,
			      int *same)
{
	return ukmem_rseq_cmpxchg_double(&pcpu, handle, oldv, newv, same);
}

void *section_array_pop(void *handle)
{
	void *object;

	pcpu_array_pop_rseq(&pcpu, handle, &object);
	return object;
}

bool section_array_push(void *handle, void *object)
{
	return pcpu_array_push_rseq(&pcpu, handle, 0, object);
}

#define BY(what)                                                                               \
	void *section_array_pop_by_##what(const uintptr_t *units, const pcpu_entry_t *entry)   \
	{                                                                                      \
		void *object;                                                                  \
                                                                                               \
		pcpu_array_pop_by_##what(units, pcpu.rseq, entry, &object);                    \
		return object;                                                                 \
	}                                                                                      \
                                                                                               \
	bool section_array_push_by_##what(const uintptr_t *units, const pcpu_entry_t *entry,   \
					  void *object)                                        \
	{                                                                                      \
		return pcpu_array_push_by_##what(units, pcpu.rseq, entry, object);             \
	}

BY(cpu)
BY(cid)

unsigned int section_array_pop_bulk(void *handle, void **out, unsigned int n, int64_t delta)
{
	return pcpu_array_pop_bulk_rseq(&pcpu, handle, out, n, delta);
}

unsigned int section_array_push_bulk(void *handle, void *const *in, unsigned int n)
{
	return pcpu_array_push_bulk_rseq(&pcpu, handle, in, n);
}
