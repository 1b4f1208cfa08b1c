/* SPDX-License-Identifier: MIT */
/*
 * The main function of programs with KUnit suites: <kunit/test.h>.
 *
 *	program [CASE=REASON...]	these cases are left out, aloud
 *
 * The output is TAP. At the end the library's state must be sound. Status 1 if a case failed.
 */
#include <kunit/test.h>
#include <ukmem/stats.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NR_SUITES 16

static struct kunit_suite *all[NR_SUITES];
static size_t nr_suites;
static jmp_buf end_of_case;
static struct kunit_resource *resource;

struct block {
	struct block *next;
	void *memory;
};

void kunit_register(struct kunit_suite *const *suites, size_t n)
{
	while (n--) {
		BUG_ON(nr_suites == NR_SUITES);
		all[nr_suites++] = *suites++;
	}
}

void kunit_say(struct kunit *test, const char *fmt, ...)
{
	va_list args;

	printf("    # %s: ", test->name);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	if (!*fmt || fmt[strlen(fmt) - 1] != '\n')
		putchar('\n');
}

void kunit_fail(struct kunit *test, bool fatal, const char *file, int line, const char *text,
		const char *fmt, ...)
{
	va_list args;

	test->failed = true;
	printf("    # %s: %s:%d: FAILED: %s ", test->name, file, line, text);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	if (fatal)
		kunit_end_case(test);
}

void kunit_end_case(struct kunit *test)
{
	(void)test;
	longjmp(end_of_case, 1);
}

void *kunit_kmalloc_array(struct kunit *test, size_t n, size_t size, gfp_t gfp)
{
	struct block *block = kmalloc(sizeof(*block), GFP_KERNEL);

	if (!block)
		return NULL;
	block->memory = kmalloc_array(n, size, gfp);
	block->next = test->blocks;
	test->blocks = block;
	return block->memory;
}

void kunit_kfree(struct kunit *test, const void *memory)
{
	for (struct block *b = test->blocks; b; b = b->next) {
		if (b->memory != memory)
			continue;
		kfree(b->memory);
		b->memory = NULL;
		return;
	}
	BUG();
}

static void free_blocks(struct kunit *test)
{
	struct block *next;

	for (struct block *b = test->blocks; b; b = next) {
		next = b->next;
		kfree(b->memory);
		kfree(b);
	}
}

int kunit_add_named_resource(struct kunit *test, int (*init)(struct kunit_resource *, void *),
			     void (*free)(struct kunit_resource *), struct kunit_resource *r,
			     const char *name, void *data)
{
	(void)test;
	(void)free;
	r->name = name;
	r->data = data;
	resource = r;
	return init ? init(r, data) : 0;
}

struct kunit_resource *kunit_find_named_resource(struct kunit *test, const char *name)
{
	(void)test;
	return resource && !strcmp(resource->name, name) ? resource : NULL;
}

/* Why case @name is left out; NULL: it is not. */
static const char *left_out(char **argv, const char *name)
{
	size_t len = strlen(name);

	while (*++argv)
		if (!strncmp(*argv, name, len) && (*argv)[len] == '=')
			return *argv + len + 1;
	return NULL;
}

/* Apart from run(), whose variables a longjmp could spoil. */
static void run_body(struct kunit_suite *suite, struct kunit_case *c, struct kunit *test)
{
	if (setjmp(end_of_case))
		return;
	if (suite->init && suite->init(test)) {
		test->failed = true;
		return;
	}
	c->run_case(test);
}

/* Result: 1 if it passed, 0 if it was left out, -1. */
static int run(struct kunit_suite *suite, struct kunit_case *c, unsigned int number,
	       char **argv)
{
	struct kunit test = { .name = c->name, .skipped = left_out(argv, c->name) };

	if (!test.skipped) {
		run_body(suite, c, &test);
		if (suite->exit)
			suite->exit(&test);
		free_blocks(&test);
		resource = NULL;
	}
	printf("%sok %u %s.%s", test.failed ? "not " : "", number, suite->name, c->name);
	if (test.skipped && !test.failed)
		printf(" # SKIP %s", test.skipped);
	putchar('\n');
	return test.failed ? -1 : !test.skipped;
}

int main(int argc, char **argv)
{
	unsigned int passed = 0, failed = 0, skipped = 0;

	(void)argc;
	for (size_t i = 0; i < nr_suites; i++) {
		if (all[i]->suite_init && all[i]->suite_init(all[i]))
			failed++;
		for (struct kunit_case *c = all[i]->test_cases; c->name; c++) {
			int result = run(all[i], c, passed + failed + skipped + 1, argv);

			passed += result == 1;
			failed += result == -1;
			skipped += result == 0;
		}
		if (all[i]->suite_exit)
			all[i]->suite_exit(all[i]);
	}
	if (ukmem_verify(stdout)) {
		printf("not ok: the library's state\n");
		failed++;
	}
	printf("kunit: %u passed, %u failed, %u skipped\n", passed, failed, skipped);
	return failed || !passed;
}
