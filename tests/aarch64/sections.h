/* SPDX-License-Identifier: MIT */
/*
 * Every critical section behind a function of its own, and every this_cpu_
 * operation: the check of the disassembly looks at them, and sections_test.c runs them.
 *
 * Built with ABORTS=1, each section jumps to its abort handler at the place
 * `abort_place` says (see UKMEM_RSEQ_INJECT), as the kernel would make it do; or it
 * loses the exclusive monitor there, CLEAR_EXCLUSIVE added.
 */
#ifndef AARCH64_SECTIONS_H
#define AARCH64_SECTIONS_H

#ifndef ABORTS
#define ABORTS 0
#endif

#if ABORTS
/* Flags survive on aarch64, where cmpxchg_double looks at them after the commit. */
/* clang-format off */
#if defined(__aarch64__)
#define UKMEM_RSEQ_INJECT(place)                                                               \
	"adrp %[j], abort_place\n\t"                                                           \
	"ldr %w[j], [%[j], :lo12:abort_place]\n\t"                                             \
	"sub %w[j], %w[j], #" #place "\n\t"                                                    \
	"cbz %w[j], 4f\n\t"                                                                    \
	"sub %w[j], %w[j], #16\n\t"                                                            \
	"cbnz %w[j], 7f\n\t"                                                                   \
	"clrex\n\t"                                                                            \
	"7:\n\t"
#else
#define UKMEM_RSEQ_INJECT(place)                                                               \
	"movl abort_place(%%rip), %k[j]\n\t"                                                   \
	"subl $" #place ", %k[j]\n\t"                                                          \
	"jz 4f\n\t"
#endif
#define UKMEM_RSEQ_INJECT_TEMP , j
#define UKMEM_RSEQ_INJECT_OPERAND , [j] "=&r"(j)
/* clang-format on */
#endif

#include "percpu/array.h"

#if !UKMEM_HAVE_RSEQ
#error "this compiler builds no sections: nothing to test"
#endif

enum { ABORT_PLACES = 4, CLEAR_EXCLUSIVE = 16, ABORT_NOWHERE = 255 };
extern uint32_t abort_place;

/* A section of the size; the result is whether it committed, or left, and did not fail. */
struct section {
	const char *name;
	enum ukmem_percpu_op op;
	unsigned int size;
	int (*run)(void *handle, uint64_t v, uint64_t w, uint64_t *result);
};
extern const struct section sections[];
extern const unsigned int nr_sections;

int section_cmpxchg_double_16(void *handle, const uint64_t *oldv, const uint64_t *newv,
			      int *same);
void *section_array_pop(void *handle);
bool section_array_push(void *handle, void *object);
void *section_array_pop_by_cpu(const uintptr_t *units, const pcpu_entry_t *entry);
bool section_array_push_by_cpu(const uintptr_t *units, const pcpu_entry_t *entry, void *object);
void *section_array_pop_by_cid(const uintptr_t *units, const pcpu_entry_t *entry);
bool section_array_push_by_cid(const uintptr_t *units, const pcpu_entry_t *entry, void *object);
unsigned int section_array_pop_bulk(void *handle, void **out, unsigned int n, int64_t delta);
unsigned int section_array_push_bulk(void *handle, void *const *in, unsigned int n);

enum operand { OPERAND_V, OPERAND_MINUS_V, OPERAND_ONE, OPERAND_MINUS_ONE };
enum answer { ANSWER_NONE, ANSWER_VALUE, ANSWER_TRIED, ANSWER_READ };

/*
 * A this_cpu_ operation on a type: which section it is to use, with which first
 * operand (the second is w), and what it returns. try_cmpxchg writes *w.
 */
struct operation {
	const char *name;
	enum ukmem_percpu_op op;
	unsigned int size;
	bool is_signed;
	enum operand operand;
	enum answer answer;
	uint64_t (*run)(void *handle, uint64_t v, uint64_t *w);
};
extern const struct operation operations[];
extern const unsigned int nr_operations;

bool operation_cmpxchg_double_u32(void *handle, const uint64_t *oldv, const uint64_t *newv);
bool operation_cmpxchg_double_u64(void *handle, const uint64_t *oldv, const uint64_t *newv);

#endif
