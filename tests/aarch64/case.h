/* SPDX-License-Identifier: MIT */
/*
 * A case: one section or operation runs once, in a thread that seems to have an index, copies
 * and a struct rseq of its own. A check of a case
 *
 *	new_case()	chooses them by chance
 *	remember()	once memory is as the section is to find it
 *	...		runs the section, and does to the model what it has to do
 *	check_memory()	compares
 */
#ifndef AARCH64_CASE_H
#define AARCH64_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sections.h"

enum {
	COPIES = 6, /* the last is the spill copy at the highest limit */
	AREA = 4096,
	ROUNDS = ABORTS ? 20 : 60,
};

struct fake_rseq {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid, unused;
} __attribute__((aligned(32)));

/* The thread's struct rseq, and as it was before the section ran. */
extern _Thread_local struct fake_rseq rseq, rseq_before;
/* AREA bytes for the copies; above 4 GiB, so that a 32-bit address is a wrong one. */
extern unsigned char *memory;
extern const char *subject; /* the name of the section or operation that runs */
extern unsigned int failures, checks;
extern uint64_t random_state; /* not 0 */

/* What the library was asked for: a section that fails calls it. */
struct slow_call {
	unsigned int calls;
	enum ukmem_percpu_op op;
	unsigned int size;
	void *handle;
	uint64_t v, w, result;
	uint64_t oldv[2], newv[2];
};
extern struct slow_call slow;

/* Where the copies are, and which of them is to be used. */
struct place {
	unsigned char *first; /* the copy of index 0 */
	void *handle;
	unsigned int index;
	bool has_cpu;
	unsigned char *copy, *model; /* the one to be changed, and the model's */
};
extern struct place at;

uint64_t random_word(void);
/* A random number below @n. */
unsigned int below(unsigned int n);
/* A random word; often one that carries, borrows or has a sign in some width. */
uint64_t random_operand(void);
/* Counts a check, and reports @what if @condition is false. */
void expect(bool condition, const char *what);

/* The low @size bytes of @v. */
uint64_t cut(uint64_t v, unsigned int size);
/* Loads and stores @size bytes; the machine is little-endian. */
uint64_t load(const unsigned char *p, unsigned int size);
void store(unsigned char *p, unsigned int size, uint64_t v);

/* @cpu: the index to hit. @space: the bytes of a copy, a multiple of which is @align. */
void new_case(unsigned int cpu, bool has_cpu, unsigned int space, unsigned int align);
void remember(void);
void check_memory(void);
/* Nothing but rseq_cs was written in struct rseq. */
void check_rest_of_rseq(void);
/* The same, and rseq_cs has the address of a sound descriptor: that of the section that ran. */
void check_rseq(void);
/* The same; and a function with one section has one descriptor, its own. */
void check_own_descriptor(void);

/*
 * Whether the section, which reached @last of the places there are, gets to its end. Sections
 * without a load of their own have no place 2 (x86-64).
 */
bool completes(unsigned int last, bool loads);
bool aarch64(void);

/* What follows runs for each CPU in turn, most of the time as on that CPU, else without one. */
#define FOR_CASES(space, align)                                                                \
	for (unsigned int round = 0, cpu; round < ROUNDS; round++)                             \
		for (cpu = 0; cpu < COPIES - 1; cpu++)                                         \
			if (new_case(cpu, below(5) != 0, (space), (align)), true)

/* Checks of all sections and operations: scalar_checks.c, array_checks.c. */
void check_scalars(void);
/* With limit 0, in fallback mode, every operation is the library's. */
void check_fallback(void);
void check_arrays(void);

#endif
