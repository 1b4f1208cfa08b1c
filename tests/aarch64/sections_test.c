/* SPDX-License-Identifier: MIT */
/*
 * Runs each section and operation alone in its thread, with a registration for
 * rseq that this program makes up, and compares what it did with a model in C:
 * its result, the memory of all copies, and struct rseq, of which only rseq_cs
 * may change.
 *
 * usage: sections_test [SEED]
 *
 * No kernel knows the registration, so nothing interrupts a section. Built with
 * ABORTS=1 every section jumps to its own abort handler, at each place in turn, and
 * loses the exclusive monitor in front of its commit.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sections.h"

#if defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#else
#define SIGNATURE 0x53053053u
#endif

enum {
	COPIES = 6, /* the last is the spill copy at the highest limit */
	AREA = 4096,
	ROUNDS = ABORTS ? 20 : 60,
	MAX_SLOTS = 10,
	MAX_BULK = 12,
};

struct fake_rseq {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid, unused;
} __attribute__((aligned(32)));

struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
} __attribute__((aligned(32)));

extern const struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

struct ukmem_percpu_state pcpu;
uint32_t abort_place = ABORT_NOWHERE;

static _Thread_local struct fake_rseq rseq, rseq_before;
/* The copies; above 4 GiB, so that a 32-bit address is a wrong one. */
static unsigned char *memory;
static unsigned char expected[AREA];

static const char *subject; /* what runs */
static unsigned int failures, checks;

static uint64_t random_state;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1d;
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(random_word() >> 32) % n;
}

/* Often what carries, borrows or has a sign in some width. */
static uint64_t random_operand(void)
{
	uint64_t power = (uint64_t)1 << below(64);

	switch (below(4)) {
	case 0:
		return power;
	case 1:
		return power - 1;
	case 2:
		return -power;
	default:
		return random_word();
	}
}

static void expect(bool condition, const char *what)
{
	checks++;
	if (condition)
		return;
	if (failures++ < 20)
		printf("FAILED %s: %s (cpu_id %" PRIu32 ", index %s, mm_cid %" PRIu32
		       ", limit %" PRIu32 ", stride %zu, abort place %" PRIu32 ")\n",
		       subject, what, rseq.cpu_id,
		       pcpu.index - pcpu.rseq == 4 ? "cpu_id" : "mm_cid", rseq.mm_cid,
		       pcpu.limit, pcpu.stride, abort_place);
}

static uint64_t cut(uint64_t v, unsigned int size)
{
	return size == 8 ? v : v & (((uint64_t)1 << (size * 8)) - 1);
}

/* As a value of that type, widened. */
static uint64_t as_type(uint64_t v, unsigned int size, bool is_signed)
{
	uint64_t sign = (uint64_t)1 << (size * 8 - 1);

	v = cut(v, size);
	return is_signed && (v & sign) ? v | ~cut(UINT64_MAX, size) : v;
}

/* The machine is little-endian. */
static uint64_t load(const unsigned char *p, unsigned int size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

static void store(unsigned char *p, unsigned int size, uint64_t v)
{
	memcpy(p, &v, size);
}

/* What the library does when a section fails: here, remember it. */

static struct {
	unsigned int calls;
	enum ukmem_percpu_op op;
	unsigned int size;
	void *handle;
	uint64_t v, w, result;
	uint64_t oldv[2], newv[2];
} slow;

uint64_t ukmem_percpu_op(enum ukmem_percpu_op op, unsigned int size, void *handle, uint64_t v,
			 uint64_t w)
{
	slow.calls++;
	slow.op = op;
	slow.size = size;
	slow.handle = handle;
	slow.v = v;
	slow.w = w;
	return slow.result;
}

bool ukmem_percpu_cmpxchg_double(void *handle, const uint64_t *oldv, const uint64_t *newv)
{
	slow.calls++;
	slow.handle = handle;
	memcpy(slow.oldv, oldv, sizeof(slow.oldv));
	memcpy(slow.newv, newv, sizeof(slow.newv));
	return slow.result & 1;
}

unsigned int ukmem_percpu_index(void)
{
	slow.calls++;
	return pcpu.nr_ids;
}

unsigned int ukmem_percpu_nr(void)
{
	return pcpu.nr_ids + 1;
}

/* A case: where the copies are and which of them is to be used. */

static struct {
	unsigned char *first; /* the copy of index 0 */
	void *handle;
	unsigned int index;
	bool has_cpu;
	unsigned char *copy, *model; /* the one to be changed, and the model's */
} at;

/* A CPU id that has no copies. */
static uint32_t bad_cpu(void)
{
	switch (below(5)) {
	case 0:
		return UINT32_MAX; /* not registered yet */
	case 1:
		return UINT32_MAX - 1; /* registration failed */
	case 2:
		return pcpu.limit;
	case 3:
		return (uint32_t)1 << 31;
	default:
		return pcpu.limit + (uint32_t)random_word() % (UINT32_MAX - pcpu.limit);
	}
}

/* @cpu: the index to hit. @space: bytes a copy takes. */
static void new_case(unsigned int cpu, bool has_cpu, unsigned int space, unsigned int align)
{
	bool mm_cid = below(2);

	pcpu.rseq = (char *)&rseq - (char *)__builtin_thread_pointer();
	pcpu.index = pcpu.rseq + (mm_cid ? 24 : 4);
	pcpu.stride = (space + 15) / 16 * 16 + 16 * below(32);
	pcpu.base = below(4) ? (ptrdiff_t)(random_word() >> below(64)) : 0;
	pcpu.limit = cpu + 1 + below(COPIES - 1 - cpu);
	pcpu.nr_ids = pcpu.limit;
	rseq = (struct fake_rseq){
		.cpu_id_start = (uint32_t)random_word(),
		.cpu_id = !has_cpu ? bad_cpu()
			  : mm_cid ? below(pcpu.limit)
				   : cpu,
		.rseq_cs = random_word(),
		.flags = (uint32_t)random_word(),
		.node_id = (uint32_t)random_word(),
		.mm_cid = mm_cid ? cpu : (uint32_t)random_word(),
		.unused = (uint32_t)random_word(),
	};
	rseq_before = rseq;
	for (unsigned int i = 0; i < AREA; i += 8)
		store(memory + i, 8, random_word());
	at.first = memory + 64 + align * below(64 / align);
	at.handle = (void *)((uintptr_t)at.first - (uintptr_t)pcpu.base);
	at.index = cpu;
	at.has_cpu = has_cpu;
	at.copy = at.first + cpu * pcpu.stride;
	at.model = expected + (at.copy - memory);
	memset(&slow, 0, sizeof(slow));
	slow.result = random_word();
}

/* Call when memory is as it should be before the section runs. */
static void remember(void)
{
	memcpy(expected, memory, AREA);
}

static void check_memory(void)
{
	expect(!memcmp(memory, expected, AREA), "memory is not as it should be");
}

/* The descriptor of what ran, which is still in rseq_cs. */
static const struct descriptor *check_rseq(void)
{
	uintptr_t d = rseq.rseq_cs;
	const struct descriptor *descriptor = (const struct descriptor *)d;
	bool is_descriptor;

	rseq_before.rseq_cs = rseq.rseq_cs;
	expect(!memcmp(&rseq, &rseq_before, sizeof(rseq)),
	       "more of struct rseq was written than rseq_cs");
	is_descriptor = d >= (uintptr_t)__start___rseq_cs && d < (uintptr_t)__stop___rseq_cs &&
			d % sizeof(*descriptor) == 0;
	expect(is_descriptor, "rseq_cs is no descriptor's address");
	if (!is_descriptor)
		return NULL;
	expect(descriptor->version == 0 && descriptor->flags == 0,
	       "version or flags are not 0");
	expect(descriptor->abort - descriptor->start >= descriptor->length,
	       "the abort handler is inside the section");
	expect(*(const uint32_t *)(uintptr_t)(descriptor->abort - 4) == SIGNATURE,
	       "no signature in front of the abort handler");
	return descriptor;
}

/* Each function with one section has one descriptor, always the same and nobody else's. */
static void check_own_descriptor(void)
{
	static struct {
		const char *subject;
		const struct descriptor *descriptor;
	} known[64];
	const struct descriptor *descriptor = check_rseq();

	for (unsigned int i = 0; descriptor && i < ARRAY_SIZE(known); i++) {
		if (!known[i].subject) {
			known[i].subject = subject;
			known[i].descriptor = descriptor;
		}
		if (known[i].subject == subject) {
			expect(known[i].descriptor == descriptor, "a descriptor that changes");
			return;
		}
		expect(known[i].descriptor != descriptor, "another section's descriptor");
	}
}

/*
 * Whether the section, which reached @last of the places there are, gets to its
 * end. Sections without a load of their own have no place 2 (x86-64).
 */
static bool completes(unsigned int last, bool loads)
{
	if (!at.has_cpu)
		return false;
	if (abort_place > last)
		return true;
	return abort_place == 2 && !loads;
}

static bool aarch64(void)
{
#if defined(__aarch64__)
	return true;
#else
	return false;
#endif
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

/* Arrays: their handles are the addresses of first copies, without the base. */

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

/* @check on every CPU in turn, and without one. */
#define FOR_CASES(space, align)                                                                \
	for (unsigned int round = 0, cpu; round < ROUNDS; round++)                             \
		for (cpu = 0; cpu < COPIES - 1; cpu++)                                         \
			if (new_case(cpu, below(5) != 0, (space), (align)), true)

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

static void check_all(void)
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

/* With limit 0, in fallback mode, every operation is the library's. */
static void check_fallback(void)
{
	for (unsigned int i = 0; i < nr_operations; i++) {
		uint64_t w = 0;

		subject = operations[i].name;
		new_case(0, true, 8, operations[i].size);
		pcpu.limit = 0;
		remember();
		operations[i].run(at.handle, 0, &w);
		expect(slow.calls == 1, "did not call the library");
		rseq_before.rseq_cs = rseq.rseq_cs;
		expect(!memcmp(&rseq, &rseq_before, sizeof(rseq)),
		       "more of struct rseq was written than rseq_cs");
		check_memory();
	}
}

static void *run(void *unused)
{
	(void)unused;
	if (!ABORTS) {
		check_all();
		check_fallback();
		return NULL;
	}
	for (abort_place = 0; abort_place < ABORT_PLACES; abort_place++)
		check_all();
	abort_place = CLEAR_EXCLUSIVE + 3;
	check_all();
	abort_place = ABORT_NOWHERE;
	check_all();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	memory = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || (uintptr_t)memory <= UINT32_MAX) {
		printf("FAILED: no memory above 4 GiB\n");
		return 1;
	}
	random_state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 88172645463325252;
	run(NULL);
	/* Another thread has another struct rseq at the same offset. */
	if (pthread_create(&other, NULL, run, NULL) || pthread_join(other, NULL)) {
		printf("FAILED: no second thread\n");
		return 1;
	}
	printf("%s%s: %u checks, %u failed\n", aarch64() ? "aarch64" : "x86-64",
	       ABORTS ? ", aborted at each place" : "", checks, failures);
	return failures != 0;
}
