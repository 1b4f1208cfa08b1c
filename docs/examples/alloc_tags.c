/* SPDX-License-Identifier: MIT */
/* Bytes and objects by call site. Compiled with -DUKMEM_ALLOC_TAGS, as here by the line below.
 */
#define UKMEM_ALLOC_TAGS
#include <assert.h>
#include <ukmem/alloc_tag.h>
#include <ukmem/slab.h>
#include <unistd.h>

/* Each call of kmalloc() in this file has a tag, without a word here. */
static void print_tags(void)
{
	void *p = kmalloc(1000, GFP_KERNEL);

	ukmem_alloc_tags_print(STDOUT_FILENO);
	kfree(p);
}

/* A wrapper counts what it allocates with a tag of its own. */
static struct ukmem_alloc_tag *own_tag;

static void *get_buffer(size_t size)
{
	void *p = (kmalloc)(size, GFP_KERNEL);

	return own_tag ? ukmem_alloc_tag_add(own_tag, p, size, GFP_KERNEL) : p;
}

static void put_buffer(void *p)
{
	ukmem_alloc_tag_sub(p);
	(kfree)(p);
}

static int64_t bytes_of(const struct ukmem_alloc_tag *tag)
{
	return ukmem_alloc_tag_read(tag).bytes;
}

int main(void)
{
	print_tags();
	/* The first tag of the process: that of print_tags(). */
	assert(ukmem_alloc_tag_table.nr > 0);
	own_tag = ukmem_alloc_tag_table.tags[1];
	void *p = get_buffer(500);
	assert(bytes_of(own_tag) == 500);
	put_buffer(p);
	assert(bytes_of(own_tag) == 0);
	return 0;
}
