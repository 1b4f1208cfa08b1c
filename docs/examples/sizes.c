/* SPDX-License-Identifier: MIT */
/* Sizes that do not wrap around, and error numbers as pointers. */
#include <assert.h>
#include <stdint.h>
#include <ukmem/err.h>
#include <ukmem/kmalloc.h>
#include <ukmem/overflow.h>

struct list {
	size_t n;
	int values[];
};

/* A size that does not fit becomes SIZE_MAX, which no allocation satisfies. */
static void sizes(size_t n)
{
	struct list *l = kmalloc(struct_size(l, values, n), GFP_KERNEL);

	assert(l && struct_size_t(struct list, values, n) == struct_size(l, values, n));
	assert(flex_array_size(l, values, n) == array_size(n, sizeof(int)));
	assert(size_mul(SIZE_MAX, 2) == SIZE_MAX && size_add(SIZE_MAX, 1) == SIZE_MAX);
	assert(size_sub(1, 2) == SIZE_MAX && array3_size(2, 3, 4) == 24);
	kfree(l);
}

/* Whether a result fits. */
static void checked(void)
{
	unsigned char sum;
	int product, difference;

	assert(check_add_overflow(200, 100, &sum) && sum == 44);
	assert(!check_mul_overflow(6, 7, &product) && product == 42);
	assert(!check_sub_overflow(6, 7, &difference) && difference == -1);
}

/* A function that returns a pointer or an error number. */
static void *open_list(size_t n)
{
	void *p;

	if (n > 1000000)
		return ERR_PTR(-EINVAL);
	p = kmalloc(struct_size_t(struct list, values, n), GFP_KERNEL);
	return p ? p : ERR_PTR(-ENOMEM);
}

static long use_list(size_t n)
{
	struct list *l = open_list(n);

	if (IS_ERR(l))
		return PTR_ERR(l);
	assert(!IS_ERR_OR_NULL(l) && PTR_ERR_OR_ZERO(l) == 0 && !IS_ERR_VALUE(l));
	kfree(l);
	return 0;
}

/* An error goes on as a pointer of another type. */
static int *first_value(size_t n)
{
	struct list *l = open_list(n);

	return IS_ERR(l) ? ERR_CAST(l) : (kfree(l), (int *)NULL);
}

int main(void)
{
	sizes(10);
	checked();
	assert(use_list(10) == 0 && use_list(2000000) == -EINVAL);
	assert(IS_ERR(first_value(2000000)));
	return 0;
}
