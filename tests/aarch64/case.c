/* SPDX-License-Identifier: MIT */
/* A case: memory, a struct rseq and what the library is asked for; see case.h. */
#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#else
#define SIGNATURE 0x53053053u
#endif

struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
} __attribute__((aligned(32)));

extern const struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

struct ukmem_percpu_state pcpu;
uint32_t abort_place = ABORT_NOWHERE;

_Thread_local struct fake_rseq rseq, rseq_before;
unsigned char *memory;
const char *subject;
unsigned int failures, checks;
uint64_t random_state;
struct slow_call slow;
struct place at;

static unsigned char expected[AREA];

uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1d;
}

unsigned int below(unsigned int n)
{
	return (unsigned int)(random_word() >> 32) % n;
}

uint64_t random_operand(void)
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

void expect(bool condition, const char *what)
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

uint64_t cut(uint64_t v, unsigned int size)
{
	return size == 8 ? v : v & (((uint64_t)1 << (size * 8)) - 1);
}

uint64_t load(const unsigned char *p, unsigned int size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

void store(unsigned char *p, unsigned int size, uint64_t v)
{
	memcpy(p, &v, size);
}

/* What the library does when a section fails: here, remember it. */

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

void new_case(unsigned int cpu, bool has_cpu, unsigned int space, unsigned int align)
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

void remember(void)
{
	memcpy(expected, memory, AREA);
}

void check_memory(void)
{
	expect(!memcmp(memory, expected, AREA), "memory is not as it should be");
}

void check_rest_of_rseq(void)
{
	rseq_before.rseq_cs = rseq.rseq_cs;
	expect(!memcmp(&rseq, &rseq_before, sizeof(rseq)),
	       "more of struct rseq was written than rseq_cs");
}

/* The descriptor of what ran, which is still in rseq_cs. */
static const struct descriptor *check_descriptor(void)
{
	uintptr_t d = rseq.rseq_cs;
	const struct descriptor *descriptor = (const struct descriptor *)d;
	bool is_descriptor;

	check_rest_of_rseq();
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

void check_rseq(void)
{
	check_descriptor();
}

void check_own_descriptor(void)
{
	static struct {
		const char *subject;
		const struct descriptor *descriptor;
	} known[64];
	const struct descriptor *descriptor = check_descriptor();

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

bool completes(unsigned int last, bool loads)
{
	if (!at.has_cpu)
		return false;
	if (abort_place > last)
		return true;
	return abort_place == 2 && !loads;
}

bool aarch64(void)
{
#if defined(__aarch64__)
	return true;
#else
	return false;
#endif
}
