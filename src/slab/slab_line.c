/* SPDX-License-Identifier: MIT */
/*
 * Keeps CPUs from sharing a line of the processor's cache for long.
 *
 * Objects that one thread allocated one after the other lie in one line. If it passes them on,
 * and each of their new owners frees its object, allocates the next one, and so on, then each
 * CPU's array hands out the same object again and again: it was freed last. So CPUs write to
 * one line for ever, and each write waits for the line.
 *
 * Neither a free nor an allocation can see that without another instruction. But the countdown
 * of an array (percpu/array_wind.c) brings one allocation of 32768 to the slow path. That one
 * leaves the line: the object on top of the array, and those below it in its lines and the
 * lines beside these, go back to their slabs, and the allocation takes the next one. The first
 * countdown of an array that is opened while the program has several threads is short
 * (FIRST_POPS), because an array's first object often comes from another CPU.
 *
 * The problem is Berger's passive false sharing ("Hoard", ASPLOS 2000), which Hoard, mimalloc
 * and others avoid by giving what is freed back to the page or thread that it came from.
 */
#include "slab/slab_line.h"

#include "percpu/array_wind.h"

enum { FIRST_POPS = 1024 };

static uintptr_t line_of(uintptr_t address)
{
	return address / CACHE_LINE;
}

/* Whether two objects of @size bytes lie in the same lines, or in lines beside each other: an
 * object between them may have a part of either. */
static bool are_near(const void *a, const void *b, size_t size)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return line_of(x) <= line_of(y + size - 1) + 1 &&
	       line_of(y) <= line_of(x + size - 1) + 1;
}

unsigned int slab_line_leave(struct kmem_cache *s, unsigned int node, void **held)
{
	void *array = slab_array(s, node), *objs[SLAB_LINE_OBJECTS], *top;
	unsigned int got, stay = 0, n = 0;

	got = pcpu_array_pop_bulk(array, objs, SLAB_LINE_OBJECTS, PCPU_POP_UNCOUNTED);
	if (!got)
		return 0;
	top = objs[got - 1];
	for (unsigned int i = 0; i < got; i++) {
		if (are_near(objs[i], top, s->size))
			held[n++] = objs[i];
		else
			objs[stay++] = objs[i];
	}
	/* A thread that came between may have filled the array. */
	for (unsigned int i = pcpu_array_push_bulk(array, objs, stay); i < stay; i++)
		held[n++] = objs[i];
	return n;
}

void slab_line_wind_new(struct kmem_cache *s, unsigned int node, unsigned int cpu)
{
	void *array = slab_array(s, node);

	if (slab_line_is_shared(s))
		pcpu_array_wind_cpu(array, cpu, pcpu_array_header(pcpu_ptr(array, cpu)),
				    FIRST_POPS, false);
}
