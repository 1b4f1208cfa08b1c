/* SPDX-License-Identifier: MIT */
/* Memory of any size. */
#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ukmem/slab.h>

struct message {
	unsigned int len;
	char data[];
};

/* A block; its usable bytes may be more than was asked for. */
static void one_block(void)
{
	char *p = kmalloc(100, GFP_KERNEL);

	assert(p && ksize(p) >= 100);
	assert(ksize(p) == kmalloc_size_roundup(100));
	kfree(p);
}

/* kmalloc(0) is a pointer that may be freed, and nothing else. */
static void no_bytes(void)
{
	void *p = kmalloc(0, GFP_KERNEL);

	assert(ZERO_OR_NULL_PTR(p));
	kfree(p);
}

/* Zeroed memory, and arrays whose size cannot overflow. */
static void arrays(void)
{
	unsigned long *counts = kcalloc(100, sizeof(*counts), GFP_KERNEL);
	unsigned long *table = kmalloc_array(100, sizeof(*table), GFP_KERNEL);
	struct message *m = kzalloc(sizeof(*m), GFP_KERNEL);

	assert(counts[99] == 0 && m->len == 0);
	table = krealloc_array(table, 200, sizeof(*table), GFP_KERNEL);
	table[199] = 1;
	kfree(m);
	kfree(table);
	kfree(counts);
}

/* A failed krealloc() leaves the old block as it was. */
static bool grow(char **text, size_t size)
{
	char *more = krealloc(*text, size, GFP_KERNEL);

	if (more)
		*text = more;
	return more;
}

/* On a NUMA node; NUMA_NO_NODE: wherever the thread runs. */
static void on_a_node(void)
{
	void *blocks[4] = {
		kmalloc_node(100, GFP_KERNEL, 0),
		kzalloc_node(100, GFP_KERNEL, 0),
		kmalloc_array_node(10, 100, GFP_KERNEL, 0),
		kcalloc_node(10, 100, GFP_KERNEL, NUMA_NO_NODE),
	};

	kfree_bulk(4, blocks);
}

/* A structure with an array at its end, and structures by their type. */
static void by_type(void)
{
	struct message *m = kzalloc_flex(*m, data, 20);
	struct message *n = kmalloc_flex(*n, data, 20);
	struct message *one = kzalloc_obj(*one);
	int *numbers = kmalloc_objs(int, 20), *zeros = kzalloc_objs(int, 20);
	long *number = kmalloc_obj(long);

	assert(m && m->data[19] == 0 && zeros[19] == 0);
	kfree(number);
	kfree(zeros);
	kfree(numbers);
	kfree(one);
	kfree(n);
	kfree(m);
}

/* Copies. */
static void copies(const char *name)
{
	char *all = kstrdup(name, GFP_KERNEL), *few = kstrndup(name, 3, GFP_KERNEL);
	char *bytes = kmemdup(name, 2, GFP_KERNEL), *text = kmemdup_nul(name, 2, GFP_KERNEL);
	int numbers[3] = { 1, 2, 3 },
	    *same = kmemdup_array(numbers, 3, sizeof(int), GFP_KERNEL);
	int *again = kvmemdup(numbers, sizeof(numbers), GFP_KERNEL);
	const char *constant = kstrdup_const(name, GFP_KERNEL);

	assert(!strcmp(all, name) && strlen(few) == 3 && strlen(text) == 2 && same[2] == 3);
	kfree_const(constant);
	kfree(again);
	kfree(same);
	kfree(text);
	kfree(bytes);
	kfree(few);
	kfree(all);
}

/* Formatted text in memory of its own size. */
static char *label(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = kvasprintf(GFP_KERNEL, format, args);
	va_end(args);
	return text;
}

static void formatted(void)
{
	char *a = label("cpu %d", 3), *b = kasprintf(GFP_KERNEL, "node %d", 1);

	assert(!strcmp(a, "cpu 3") && !strcmp(b, "node 1"));
	kfree(b);
	kfree(a);
}

/* What was secret is overwritten before it is freed. */
static void secrets(void)
{
	char *key = kmalloc(32, GFP_KERNEL), *large = kvmalloc(100000, GFP_KERNEL);

	memset(key, 7, 32);
	kfree_sensitive(key);
	kvfree_sensitive(large, 100000);
}

/* Whole pages. */
static void whole_pages(void)
{
	void *p = vmalloc(100000), *zeroed = vzalloc(100000), *user = vmalloc_user(4096);
	void *near = vmalloc_node(8192, 0), *both = vzalloc_node(8192, 0);
	void *soon = __vmalloc(4096, GFP_NOWAIT);

	assert(is_vmalloc_addr(p));
	vfree(soon);
	vfree(both);
	vfree(near);
	vfree(user);
	vfree(zeroed);
	vfree(p);
}

/* kvmalloc and its relatives are kmalloc and its relatives. */
static void either(void)
{
	char *a = kvmalloc(100, GFP_KERNEL), *b = kvzalloc(1 << 20, GFP_KERNEL);
	void *c = kvmalloc_node(100, GFP_KERNEL, 0), *d = kvzalloc_node(100, GFP_KERNEL, 0);
	int *e = kvmalloc_array(10, sizeof(*e), GFP_KERNEL), *f = kvcalloc(10, 4, GFP_KERNEL);
	void *g = kvmalloc_array_node(10, 4, GFP_KERNEL, 0);
	void *h = kvcalloc_node(10, 4, GFP_KERNEL, 0);

	a = kvrealloc(a, 1000, GFP_KERNEL);
	e = kvrealloc_array(e, 20, sizeof(*e), GFP_KERNEL);
	kvfree(h);
	kvfree(g);
	kvfree(f);
	kvfree(e);
	kvfree(d);
	kvfree(c);
	kvfree(b);
	kvfree(a);
}

int main(void)
{
	char *text = kstrdup("ukmem", GFP_KERNEL);

	if (!text || !grow(&text, 100))
		return 1;
	one_block();
	no_bytes();
	arrays();
	on_a_node();
	by_type();
	copies(text);
	formatted();
	secrets();
	whole_pages();
	either();
	kfree(text);
	puts("ok");
	return 0;
}
