/* SPDX-License-Identifier: MIT */
/* The sections on arrays beside a model. An array's handle is the address of its first copy. */
#include <string.h>

#include "case.h"

enum { MAX_SLOTS = 10, MAX_BULK = 12 };
enum { HEADER = 0, CAPACITY = 8, SLOTS = 16 };

/* Random contents of this CPU's array, invariants kept; sometimes it is stopped. */
static void fill_array(void)
{
	unsigned int capacity = below(MAX_SLOTS + 1), count = below(capacity + 1);
	uint64_t header = random_word() & ~PCPU_ARRAY_REFUSED & ~(uint64_t)0xffff;

	if (!below(4))
		count = capacity;
	header |= count;
	if (!below(8))
		header |= PCPU_ARRAY_STOP;
	if (!below(4)) {
		/* Few pops are left, or none. */
		header |= PCPU_ARRAY_TICKS << PCPU_ARRAY_TICKS_SHIFT;
		header -= (uint64_t)below(MAX_SLOTS + 1) << PCPU_ARRAY_TICKS_SHIFT;
	}
	store(at.copy + HEADER, 8, header);
	store(at.copy + CAPACITY, 2, capacity);
}

/* The objects that a pop may take: none of a stopped array. */
static int count_of(uint64_t header)
{
	return header & PCPU_ARRAY_STOP ? 0 : (int)(header & PCPU_ARRAY_COUNT_MASK);
}

static unsigned int left_of(uint64_t header)
{
	return 0x7fff - (unsigned int)(header >> 16 & 0x7fff);
}

/* How a section gets to the array: by index and limit, or by a table and one of two indices. */
static enum { BY_INDEX, BY_CPU, BY_CID } way;

/* Ids of the table: -3 to COPIES + 1. Those that have no copy lead to a closed array. */
static uintptr_t table[COPIES + 5];
static uintptr_t *const units = table + 3;
static pcpu_entry_t entries[16], *entry;
static uint64_t closed[2];

/* Turns a case of new_case() into one of a section that goes by a table. */
static void go_by_table(void)
{
	static const uint32_t negative[] = { UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - 2 };

	entry = &entries[below(ARRAY_SIZE(entries))];
	*entry = random_word();
	for (int i = -3; i < COPIES + 2; i++)
		units[i] = (i >= 0 && i < (int)pcpu.limit
				    ? (uintptr_t)at.first + (unsigned int)i * pcpu.stride
				    : (uintptr_t)closed) -
			   *entry;
	if (way == BY_CPU) {
		rseq.cpu_id = at.has_cpu ? at.index
			      : below(2) ? negative[below(3)]
					 : pcpu.limit + below(COPIES + 2 - pcpu.limit);
		rseq.mm_cid = (uint32_t)random_word();
	} else {
		/* The field is 0 in a thread without a registration. */
		rseq.cpu_id = at.has_cpu ? (uint32_t)random_word() >> 1 : negative[below(3)];
		rseq.mm_cid = at.has_cpu ? at.index : 0;
	}
	rseq_before = rseq;
}

static void *pop(void)
{
	return way == BY_CPU   ? section_array_pop_by_cpu(units, entry)
	       : way == BY_CID ? section_array_pop_by_cid(units, entry)
			       : section_array_pop(at.first);
}

static bool push(void *object)
{
	return way == BY_CPU   ? section_array_push_by_cpu(units, entry, object)
	       : way == BY_CID ? section_array_push_by_cid(units, entry, object)
			       : section_array_push(at.first, object);
}

static void check_pop(void)
{
	uint64_t header = load(at.copy + HEADER, 8);
	int count = count_of(header);
	bool whole = count > 0 && left_of(header) && completes(3, true);
	void *right = NULL, *object;

	remember();
	if (whole) {
		right = (void *)(uintptr_t)load(at.copy + SLOTS + 8 * (count - 1), 8);
		store(at.model + HEADER, 8, header + 0xffff);
	}
	object = pop();
	expect(object == right, "wrong object");
	check_memory();
	check_own_descriptor();
}

/* A push that fails may have written to free slots: nobody's, but nowhere else. */
static void forget_free_slots(int count, unsigned int n)
{
	memcpy(at.copy + SLOTS + 8 * count, at.model + SLOTS + 8 * count, 8 * n);
}

static void check_push(void)
{
	uint64_t header = load(at.copy + HEADER, 8);
	unsigned int capacity = (unsigned int)load(at.copy + CAPACITY, 2);
	bool fits = (uint16_t)header < capacity;
	bool whole = fits && completes(3, true);
	uint64_t object = random_word();

	remember();
	if (whole) {
		store(at.model + SLOTS + 8 * (uint16_t)header, 8, object);
		store(at.model + HEADER, 8, header + 1);
	}
	expect(push((void *)(uintptr_t)object) == whole, whole ? "failed" : "did not fail");
	if (!whole && fits && at.has_cpu && abort_place == 3)
		forget_free_slots((uint16_t)header, 1);
	check_memory();
	check_own_descriptor();
}

static unsigned int random_n(void)
{
	static const unsigned int many[] = { MAX_SLOTS + 1, 0x8000,	0x10000,
					     0x7fffffff,    0x80000000, UINT32_MAX };

	return below(4) ? 1 + below(MAX_BULK) : many[below(ARRAY_SIZE(many))];
}

static void check_pop_bulk(void)
{
	static const int64_t deltas[] = { PCPU_POP_COUNTED, PCPU_POP_UNCOUNTED };
	uint64_t header = load(at.copy + HEADER, 8);
	int64_t delta = deltas[below(2)];
	unsigned int n = random_n(), fit = 0, right = 0, k;
	void *out[MAX_SLOTS + 2], *model_out[MAX_SLOTS + 2];
	int count = count_of(header);

	remember();
	for (unsigned int i = 0; i < ARRAY_SIZE(out); i++)
		out[i] = model_out[i] = (void *)(uintptr_t)random_word();
	if (count > 0)
		fit = n < (unsigned int)count ? n : (unsigned int)count;
	if (delta == PCPU_POP_COUNTED && fit > left_of(header))
		fit = left_of(header);
	if (fit && completes(3, true)) {
		right = fit;
		memcpy(model_out + 1, at.copy + SLOTS + 8 * (count - right), 8 * right);
		store(at.model + HEADER, 8, header + right * (uint64_t)delta);
	}
	k = section_array_pop_bulk(at.first, out + 1, n, delta);
	expect(k == right, "wrong number");
	/* Where a pop failed, out is its caller's again, whatever is in it. */
	if (!right && fit && at.has_cpu && abort_place == 3)
		memcpy(model_out + 1, out + 1, 8 * fit);
	expect(!memcmp(out, model_out, sizeof(out)), "wrong objects");
	check_memory();
	check_own_descriptor();
}

static void check_push_bulk(void)
{
	uint64_t header = load(at.copy + HEADER, 8);
	int room = (int)load(at.copy + CAPACITY, 2) - (uint16_t)header;
	unsigned int n = random_n(), fit = 0, right = 0;
	void *in[MAX_BULK];

	for (unsigned int i = 0; i < ARRAY_SIZE(in); i++)
		in[i] = (void *)(uintptr_t)random_word();
	remember();
	if (room > 0)
		fit = n < (unsigned int)room ? n : (unsigned int)room;
	if (fit && completes(3, true)) {
		right = fit;
		memcpy(at.model + SLOTS + 8 * (uint16_t)header, in, 8 * right);
		store(at.model + HEADER, 8, header + right);
	}
	expect(section_array_push_bulk(at.first, in, n) == right, "wrong number");
	if (!right && fit && at.has_cpu && abort_place == 3)
		forget_free_slots((uint16_t)header, fit);
	check_memory();
	check_own_descriptor();
}

static void check_array(const char *name, void (*check)(void))
{
	subject = name;
	FOR_CASES(SLOTS + 8 * MAX_SLOTS, 8)
	{
		fill_array();
		if (way != BY_INDEX)
			go_by_table();
		check();
		expect(!closed[0] && !closed[1], "the closed array was written");
	}
}

void check_arrays(void)
{
	check_array("section_array_pop", check_pop);
	check_array("section_array_push", check_push);
	way = BY_CPU;
	check_array("section_array_pop_by_cpu", check_pop);
	check_array("section_array_push_by_cpu", check_push);
	way = BY_CID;
	check_array("section_array_pop_by_cid", check_pop);
	check_array("section_array_push_by_cid", check_push);
	way = BY_INDEX;
	check_array("section_array_pop_bulk", check_pop_bulk);
	check_array("section_array_push_bulk", check_push_bulk);
}
