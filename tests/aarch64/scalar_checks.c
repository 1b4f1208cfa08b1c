/* SPDX-License-Identifier: MIT */
/* The sections and operations on scalars, and on pairs of them, beside a model. */
#include <stdlib.h>
#include <string.h>

#include "case.h"

/* As a value of that type, widened. */
static uint64_t as_type(uint64_t v, unsigned int size, bool is_signed)
{
	uint64_t sign = (uint64_t)1 << (size * 8 - 1);

	v = cut(v, size);
	return is_signed && (v & sign) ? v | ~cut(UINT64_MAX, size) : v;
}

/* The operations on one scalar. Result: what the operation returns. */
static uint64_t model(enum ukmem_percpu_op op, unsigned int size, unsigned char *p, uint64_t v,
		      uint64_t w)
{
	uint64_t old = load(p, size);

	switch (op) {
	case UKMEM_OP_WRITE:
		store(p, size, v);
		return 0;
	case UKMEM_OP_ADD:
		store(p, size, old + v);
		return 0;
	case UKMEM_OP_AND:
		store(p, size, old & v);
		return 0;
	case UKMEM_OP_OR:
		store(p, size, old | v);
		return 0;
	case UKMEM_OP_XOR:
		store(p, size, old ^ v);
		return 0;
	case UKMEM_OP_ADD_RETURN:
		store(p, size, old + v);
		return cut(old + v, size);
	case UKMEM_OP_XCHG:
		store(p, size, v);
		return old;
	case UKMEM_OP_CMPXCHG:
		if (old == cut(v, size))
			store(p, size, w);
		return old;
	}
	abort();
}

static bool has_result(enum ukmem_percpu_op op)
{
	return op == UKMEM_OP_ADD_RETURN || op == UKMEM_OP_XCHG || op == UKMEM_OP_CMPXCHG;
}

/* Whether a section for @op that finds what is in memory now gets to its end. */
static bool scalar_completes(enum ukmem_percpu_op op, unsigned int size, uint64_t v)
{
	bool leaves = op == UKMEM_OP_CMPXCHG && load(at.copy, size) != cut(v, size);

	return completes(leaves ? 2 : 3, aarch64() || has_result(op));
}

/* What a cmpxchg is to find: half of the time what is there, else that with one bit off. */
static uint64_t random_old(const unsigned char *p, unsigned int size)
{
	uint64_t v = load(p, size) | (size < 8 ? random_word() << (size * 8) : 0);

	switch (below(4)) {
	case 0:
		return v ^ (uint64_t)1 << below(size * 8);
	case 1:
		return random_operand();
	default:
		return v;
	}
}

static void check_section(const struct section *s)
{
	bool valued = has_result(s->op), whole;
	uint64_t v =
		s->op == UKMEM_OP_CMPXCHG ? random_old(at.copy, s->size) : random_operand();
	uint64_t w = random_operand(), result = random_word(), right = result;

	remember();
	whole = scalar_completes(s->op, s->size, v);
	if (whole)
		right = model(s->op, s->size, at.model, v, w);
	expect(s->run(at.handle, v, w, &result) == whole, whole ? "failed" : "did not fail");
	if (valued && whole)
		expect(result == right, "wrong result");
	check_memory();
	check_own_descriptor();
}

static void check_operation(const struct operation *o)
{
	uint64_t v =
		o->op == UKMEM_OP_CMPXCHG ? random_old(at.copy, o->size) : random_operand();
	uint64_t w = random_operand(), given = w, operand, found = 0, result;
	bool whole;

	switch (o->operand) {
	case OPERAND_V:
		operand = v;
		break;
	case OPERAND_MINUS_V:
		operand = -v;
		break;
	case OPERAND_ONE:
		operand = 1;
		break;
	default:
		operand = UINT64_MAX;
	}
	remember();
	if (o->answer == ANSWER_READ) {
		unsigned int index = at.has_cpu ? at.index : pcpu.nr_ids;

		expect(o->run(at.handle, v, &w) ==
			       as_type(load(at.first + index * pcpu.stride, o->size), o->size,
				       o->is_signed),
		       "wrong value");
		expect(slow.calls == !at.has_cpu, "asked the library for the index, or not");
		check_memory();
		return;
	}
	whole = scalar_completes(o->op, o->size, operand);
	if (whole)
		found = model(o->op, o->size, at.model, operand, w);
	else
		found = cut(slow.result, o->size);
	result = o->run(at.handle, v, &w);
	check_memory();
	check_rseq();
	expect(slow.calls == !whole, "called the library, or did not");
	if (!whole && slow.calls)
		expect(slow.op == o->op && slow.size == o->size && slow.handle == at.handle &&
			       cut(slow.v, o->size) == cut(operand, o->size) &&
			       (o->op != UKMEM_OP_CMPXCHG ||
				cut(slow.w, o->size) == cut(given, o->size)),
		       "called the library with something else");
	if (o->answer == ANSWER_VALUE) {
		expect(result == as_type(found, o->size, o->is_signed), "wrong result");
	} else if (o->answer == ANSWER_TRIED) {
		expect(result == (found == cut(v, o->size)), "wrong result");
		expect(w == as_type(found, o->size, o->is_signed), "old is not what was found");
	}
}

/* Two words of @size bytes at @p, half of the time those that are there. */
static void random_pair(const unsigned char *p, unsigned int size, uint64_t *oldv,
			uint64_t *newv)
{
	for (unsigned int i = 0; i < 2; i++) {
		oldv[i] = below(3) ? load(p + i * size, size) : random_old(p + i * size, size);
		newv[i] = random_operand();
	}
}

static bool model_pair(unsigned int size, bool whole, const uint64_t *oldv,
		       const uint64_t *newv)
{
	if (!whole || load(at.model, size) != cut(oldv[0], size) ||
	    load(at.model + size, size) != cut(oldv[1], size))
		return false;
	store(at.model, size, newv[0]);
	store(at.model + size, size, newv[1]);
	return true;
}

static bool pair_completes(unsigned int size, const uint64_t *oldv)
{
	bool same = load(at.copy, size) == cut(oldv[0], size) &&
		    load(at.copy + size, size) == cut(oldv[1], size);

	/* Stored by stxp, which fails without the monitor. */
	if (aarch64() && size == 8 && same && abort_place == CLEAR_EXCLUSIVE + 3)
		return false;
	return completes(same ? 3 : 2, aarch64() || size == 4);
}

static void check_double_section(void)
{
	uint64_t oldv[2], newv[2];
	int same = -1;
	bool whole, right;

	random_pair(at.copy, 8, oldv, newv);
	remember();
	whole = pair_completes(8, oldv);
	right = model_pair(8, whole, oldv, newv);
	expect(section_cmpxchg_double_16(at.handle, oldv, newv, &same) == whole,
	       whole ? "failed" : "did not fail");
	expect(same == right, "wrong result");
	check_memory();
	check_own_descriptor();
}

static void check_double(unsigned int size)
{
	uint64_t oldv[2], newv[2];
	bool whole, right, result;

	random_pair(at.copy, size, oldv, newv);
	remember();
	whole = pair_completes(size, oldv);
	right = model_pair(size, whole, oldv, newv);
	if (!whole && size == 4)
		right = slow.result == (cut(oldv[0], 4) | oldv[1] << 32);
	else if (!whole)
		right = slow.result & 1;
	if (size == 4)
		result = operation_cmpxchg_double_u32(at.handle, oldv, newv);
	else
		result = operation_cmpxchg_double_u64(at.handle, oldv, newv);
	expect(result == right, "wrong result");
	check_memory();
	check_rseq();
	expect(slow.calls == !whole, "called the library, or did not");
	if (whole || !slow.calls)
		return;
	expect(slow.handle == at.handle, "called the library with something else");
	if (size == 4)
		expect(slow.op == UKMEM_OP_CMPXCHG && slow.size == 8 &&
			       slow.v == (cut(oldv[0], 4) | oldv[1] << 32) &&
			       slow.w == (cut(newv[0], 4) | newv[1] << 32),
		       "called the library with something else");
	else
		expect(!memcmp(slow.oldv, oldv, sizeof(oldv)) &&
			       !memcmp(slow.newv, newv, sizeof(newv)),
		       "called the library with something else");
}

void check_scalars(void)
{
	for (unsigned int i = 0; i < nr_sections; i++) {
		subject = sections[i].name;
		FOR_CASES(8, sections[i].size)
		check_section(&sections[i]);
	}
	for (unsigned int i = 0; i < nr_operations; i++) {
		subject = operations[i].name;
		FOR_CASES(8, operations[i].size)
		check_operation(&operations[i]);
	}
	subject = "section_cmpxchg_double_16";
	FOR_CASES(16, 16)
	check_double_section();
	subject = "operation_cmpxchg_double_u32";
	FOR_CASES(8, 8)
	check_double(4);
	subject = "operation_cmpxchg_double_u64";
	FOR_CASES(16, 16)
	check_double(8);
}

void check_fallback(void)
{
	for (unsigned int i = 0; i < nr_operations; i++) {
		uint64_t w = 0;

		subject = operations[i].name;
		new_case(0, true, 8, operations[i].size);
		pcpu.limit = 0;
		remember();
		operations[i].run(at.handle, 0, &w);
		expect(slow.calls == 1, "did not call the library");
		check_rest_of_rseq();
		check_memory();
	}
}
