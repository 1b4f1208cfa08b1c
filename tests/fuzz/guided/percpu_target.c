/* SPDX-License-Identifier: MIT */
/* Bytes as per-CPU areas and operations on them, beside a plain variable. */
#include "input.h"
#include "ukmem/percpu.h"

enum { AREAS = 32 };

static struct {
	unsigned char *handle;
	size_t size;
} areas[AREAS];

static void take(struct input *in, unsigned int i)
{
	size_t size = input_size(in, 14), align = (size_t)1 << input_below(in, 13);
	unsigned char *handle = __alloc_percpu(size, align);
	unsigned int cpu;

	MUST(!handle || size);
	if (!handle)
		return;
	for_each_possible_cpu(cpu)
	{
		unsigned char *copy = per_cpu_ptr(handle, cpu);

		MUST((uintptr_t)copy % align == 0);
		for (size_t n = 0; n < size; n++)
			MUST(copy[n] == 0);
		memset(copy, (int)i + 1, size);
	}
	areas[i].handle = handle;
	areas[i].size = size;
}

static void give(unsigned int i)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) for (size_t n = 0; n < areas[i].size; n++)
		MUST(per_cpu_ptr(areas[i].handle, cpu)[n] == i + 1);
	free_percpu(areas[i].handle);
	areas[i].handle = NULL;
}

static void operate(struct input *in)
{
	static DEFINE_PER_CPU(uint64_t, word);
	uint64_t v = input_byte(in) * 0x0101010101010101ULL, sum = per_cpu_sum(word), old;

	switch (input_below(in, 5)) {
	case 0:
		this_cpu_add(word, v);
		MUST(per_cpu_sum(word) == sum + v);
		break;
	case 1:
		this_cpu_sub(word, v);
		MUST(per_cpu_sum(word) == sum - v);
		break;
	case 2:
		this_cpu_inc(word);
		MUST(per_cpu_sum(word) == sum + 1);
		break;
	case 3:
		old = this_cpu_xchg(word, v);
		MUST(per_cpu_sum(word) == sum - old + v);
		break;
	case 4:
		old = this_cpu_read(word);
		if (this_cpu_try_cmpxchg(word, &old, v))
			MUST(per_cpu_sum(word) == sum - old + v);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	while (input_more(&in)) {
		unsigned int i = input_below(&in, AREAS);

		if (input_below(&in, 2))
			operate(&in);
		else if (areas[i].handle)
			give(i);
		else
			take(&in, i);
	}
	for (unsigned int i = 0; i < AREAS; i++)
		if (areas[i].handle)
			give(i);
	return 0;
}
