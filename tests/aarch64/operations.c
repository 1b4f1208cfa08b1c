/* SPDX-License-Identifier: MIT */
/*
 * The this_cpu_ operations on integers of every size, one a function, as a program
 * uses them. check_sections.py goes by the names.
 */
#include "sections.h"

#define OPERATION(name, tag, type, expression)                                                 \
	static noinline uint64_t operation_##name##_##tag(void *handle, uint64_t v,            \
							  uint64_t *w)                         \
	{                                                                                      \
		type *p = handle;                                                              \
                                                                                               \
		(void)v;                                                                       \
		(void)w;                                                                       \
		return (uint64_t)(expression);                                                 \
	}

#define OPERATIONS(tag, type)                                                                  \
	OPERATION(read, tag, type, this_cpu_read(*p))                                          \
	OPERATION(write, tag, type, (this_cpu_write(*p, v), 0))                                \
	OPERATION(add, tag, type, (this_cpu_add(*p, v), 0))                                    \
	OPERATION(sub, tag, type, (this_cpu_sub(*p, v), 0))                                    \
	OPERATION(inc, tag, type, (this_cpu_inc(*p), 0))                                       \
	OPERATION(dec, tag, type, (this_cpu_dec(*p), 0))                                       \
	OPERATION(and, tag, type, (this_cpu_and(*p, v), 0))                                    \
	OPERATION(or, tag, type, (this_cpu_or(*p, v), 0))                                      \
	OPERATION(xor, tag, type, (this_cpu_xor(*p, v), 0))                                    \
	OPERATION(add_return, tag, type, this_cpu_add_return(*p, v))                           \
	OPERATION(sub_return, tag, type, this_cpu_sub_return(*p, v))                           \
	OPERATION(inc_return, tag, type, this_cpu_inc_return(*p))                              \
	OPERATION(dec_return, tag, type, this_cpu_dec_return(*p))                              \
	OPERATION(xchg, tag, type, this_cpu_xchg(*p, v))                                       \
	OPERATION(cmpxchg, tag, type, this_cpu_cmpxchg(*p, v, *w))                             \
	static noinline uint64_t operation_try_cmpxchg_##tag(void *handle, uint64_t v,         \
							     uint64_t *w)                      \
	{                                                                                      \
		type *p = handle, old = (type)v;                                               \
		bool done = this_cpu_try_cmpxchg(*p, &old, *w);                                \
                                                                                               \
		*w = (uint64_t)old;                                                            \
		return done;                                                                   \
	}

OPERATIONS(u8, uint8_t)
OPERATIONS(s8, int8_t)
OPERATIONS(u16, uint16_t)
OPERATIONS(s16, int16_t)
OPERATIONS(u32, uint32_t)
OPERATIONS(s32, int32_t)
OPERATIONS(u64, uint64_t)
OPERATIONS(s64, int64_t)

#define ENTRY(OP, name, tag, size, is_signed, operand, answer)                                 \
	{                                                                                      \
		"operation_" #name "_" #tag, UKMEM_OP_##OP, size, is_signed,                   \
			OPERAND_##operand, ANSWER_##answer, operation_##name##_##tag           \
	}

#define ENTRIES(tag, size, is_signed)                                                          \
	ENTRY(WRITE, read, tag, size, is_signed, V, READ),                                     \
		ENTRY(WRITE, write, tag, size, is_signed, V, NONE),                            \
		ENTRY(ADD, add, tag, size, is_signed, V, NONE),                                \
		ENTRY(ADD, sub, tag, size, is_signed, MINUS_V, NONE),                          \
		ENTRY(ADD, inc, tag, size, is_signed, ONE, NONE),                              \
		ENTRY(ADD, dec, tag, size, is_signed, MINUS_ONE, NONE),                        \
		ENTRY(AND, and, tag, size, is_signed, V, NONE),                                \
		ENTRY(OR, or, tag, size, is_signed, V, NONE),                                  \
		ENTRY(XOR, xor, tag, size, is_signed, V, NONE),                                \
		ENTRY(ADD_RETURN, add_return, tag, size, is_signed, V, VALUE),                 \
		ENTRY(ADD_RETURN, sub_return, tag, size, is_signed, MINUS_V, VALUE),           \
		ENTRY(ADD_RETURN, inc_return, tag, size, is_signed, ONE, VALUE),               \
		ENTRY(ADD_RETURN, dec_return, tag, size, is_signed, MINUS_ONE, VALUE),         \
		ENTRY(XCHG, xchg, tag, size, is_signed, V, VALUE),                             \
		ENTRY(CMPXCHG, cmpxchg, tag, size, is_signed, V, VALUE),                       \
		ENTRY(CMPXCHG, try_cmpxchg, tag, size, is_signed, V, TRIED)

const struct operation operations[] = {
	ENTRIES(u8, 1, false),	ENTRIES(s8, 1, true),	ENTRIES(u16, 2, false),
	ENTRIES(s16, 2, true),	ENTRIES(u32, 4, false), ENTRIES(s32, 4, true),
	ENTRIES(u64, 8, false), ENTRIES(s64, 8, true),
};
const unsigned int nr_operations = ARRAY_SIZE(operations);

bool operation_cmpxchg_double_u32(void *handle, const uint64_t *oldv, const uint64_t *newv)
{
	struct {
		uint32_t first, second;
	} *p = handle;

	return this_cpu_cmpxchg_double(p->first, p->second, oldv[0], oldv[1], newv[0], newv[1]);
}

bool operation_cmpxchg_double_u64(void *handle, const uint64_t *oldv, const uint64_t *newv)
{
	struct {
		uint64_t first, second;
	} *p = handle;

	return this_cpu_cmpxchg_double(p->first, p->second, oldv[0], oldv[1], newv[0], newv[1]);
}
