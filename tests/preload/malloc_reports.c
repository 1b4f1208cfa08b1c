/* SPDX-License-Identifier: MIT */
/* What malloc says of itself, and gives back: mallinfo, malloc_info, mallopt, malloc_trim. */
#include "malloc_reports.h"

#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

void test_trim_and_mallinfo(void)
{
	enum { COUNT = 100000, SIZE = 1000 };
	static void *p[COUNT];
	struct mallinfo2 before = mallinfo2();
	for (size_t i = 0; i < COUNT; i++) {
		p[i] = malloc(SIZE);
		CHECK(p[i], "no memory");
		memset(p[i], 1, SIZE);
	}
	struct mallinfo2 full = mallinfo2();
	size_t more = full.uordblks + full.hblkhd - before.uordblks - before.hblkhd;
	CHECK(more >= (size_t)COUNT * SIZE && more < (size_t)COUNT * SIZE * 3 / 2,
	      "mallinfo2 shows %zu bytes more after allocating %d", more, COUNT * SIZE);

	long peak = resident_kb();
	for (size_t i = 0; i < COUNT; i++)
		free(p[i]);
	int trimmed = malloc_trim(0);
	CHECK(trimmed == 0 || trimmed == 1, "malloc_trim: %d", trimmed);
	long left = resident_kb();
	CHECK(left < peak - 80000, "%ld KiB resident, %ld after free and malloc_trim", peak,
	      left);
	CHECK(malloc_trim(0) <= 1, "malloc_trim with nothing to do");

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	/* The figures are no snapshot while the background thread moves objects. */
	void *held = malloc(MIB);
	CHECK(mallinfo().uordblks > 0 || mallinfo().hblkhd > 0, "mallinfo: nothing in use");
	free(held);
#pragma GCC diagnostic pop
}

static void check_mallinfo(const char *when)
{
	struct mallinfo2 m = mallinfo2();

	CHECK(m.arena == m.uordblks + m.fordblks, "%s: arena %zu, in use %zu, free %zu", when,
	      m.arena, m.uordblks, m.fordblks);
	CHECK(m.fsmblks <= m.fordblks && m.keepcost <= m.fordblks,
	      "%s: of %zu free %zu in caches, %zu at the top", when, m.fordblks, m.fsmblks,
	      m.keepcost);
	CHECK(!m.hblks == !m.hblkhd, "%s: %zu bytes in %zu mapped blocks", when, m.hblkhd,
	      m.hblks);
}

/* Memory that the system has back is not counted: that of blocks freed is only addresses. */
void test_mallinfo_after_trim(void)
{
	enum { COUNT = 4 };
	struct mallinfo2 now;
	void *p[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		p[i] = malloc(256 * MIB);
		CHECK(p[i], "no memory");
	}
	for (size_t i = 0; i < COUNT; i++)
		free(p[i]);
	malloc_trim(0);
	now = mallinfo2();
	CHECK(now.arena + now.hblkhd < 64 * MIB, "%zu bytes taken, %zu in use", now.arena,
	      now.uordblks);
	check_mallinfo("trimmed");
}

/* Bytes in use and free bytes add up, and large blocks are counted as they come and go. */
void test_mallinfo_adds_up(void)
{
	enum { COUNT = 100 };
	void *p[COUNT], *large;
	struct mallinfo2 before = mallinfo2(), now;

	check_mallinfo("before");
	for (size_t i = 0; i < COUNT; i++)
		p[i] = malloc(i * 100);
	check_mallinfo("allocated");
	large = malloc(64 * MIB);
	CHECK(large, "no memory");
	now = mallinfo2();
	CHECK(now.hblks == before.hblks + 1 && now.hblkhd - before.hblkhd >= 64 * MIB &&
		      now.hblkhd - before.hblkhd < 65 * MIB,
	      "a block of 64 MiB: %zu blocks, %zu bytes more", now.hblks - before.hblks,
	      now.hblkhd - before.hblkhd);
	check_mallinfo("with a large block");
	free(large);
	for (size_t i = 0; i < COUNT; i++)
		free(p[i]);
	check_mallinfo("freed");
	now = mallinfo2();
	CHECK(now.hblks == before.hblks && now.hblkhd == before.hblkhd,
	      "%zu blocks, %zu bytes after the large one was freed", now.hblks, now.hblkhd);
}

void test_mallopt(void)
{
	CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1, "M_MMAP_THRESHOLD");
	CHECK(mallopt(M_MMAP_MAX, 1 << 16) == 1, "M_MMAP_MAX");
	CHECK(mallopt(M_TOP_PAD, 1 << 17) == 1, "M_TOP_PAD");
	CHECK(mallopt(M_MXFAST, 64) == 1, "M_MXFAST");
	CHECK(mallopt(M_MXFAST, 100000) == 0, "M_MXFAST of 100000");
	CHECK(mallopt(M_ARENA_MAX, 2) == 1, "M_ARENA_MAX");
	CHECK(mallopt(M_ARENA_TEST, 2) == 1, "M_ARENA_TEST");
	CHECK(mallopt(M_PERTURB, 0) == 1, "M_PERTURB");
	CHECK(mallopt(M_CHECK_ACTION, 3) == 1, "M_CHECK_ACTION");
}

static void allocate_and_free(size_t size, size_t count)
{
	static char *p[1000];

	for (size_t i = 0; i < count; i++) {
		p[i] = malloc(size);
		CHECK(p[i], "no memory");
		memset(p[i], 1, size);
	}
	for (size_t i = count; i-- > 0;)
		free(p[i]);
}

/* Below the threshold free memory stays, above it it is given back, sooner or later. */
void test_trim_threshold(void)
{
	enum { SIZE = 100000, COUNT = 1000, LARGER_KB = SIZE / 1024 * COUNT * 3 / 4 };
	const char *conf = getenv("UKMEM_CONF");
	long before;

	/* Blocks that are debugged lose their memory when they are freed. */
	if (conf && strstr(conf, "slab_debug"))
		return;
	malloc_trim(0);
	before = resident_kb();
	CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1, "M_TRIM_THRESHOLD");
	allocate_and_free(SIZE, COUNT);
	for (int i = 0; i < 25; i++) {
		usleep(100000);
		allocate_and_free(SIZE, 1);
	}
	CHECK(resident_kb() >= before + LARGER_KB, "%ld KiB, then %ld: given back", before,
	      resident_kb());
	CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 17) == 1, "M_TRIM_THRESHOLD");
	for (int i = 0; i < 100 && resident_kb() > before + LARGER_KB / 10; i++) {
		usleep(100000);
		allocate_and_free(SIZE, 1);
	}
	CHECK(resident_kb() <= before + LARGER_KB / 10, "%ld KiB, then %ld: kept", before,
	      resident_kb());
}

/* Checks that tags, quotes and nesting in @text are right, with one root. */
static void check_xml(const char *text)
{
	enum { DEPTH = 32, NAME = 64 };
	char open[DEPTH][NAME];
	int depth = 0, roots = 0;

	for (const char *s = strchr(text, '<'); s; s = strchr(s, '<')) {
		const char *end = ++s;
		for (char quote = 0; *end && (quote || *end != '>'); end++) {
			if (quote ? *end == quote : (*end == '"' || *end == '\''))
				quote = quote ? 0 : *end;
		}
		CHECK(*end == '>', "tag without an end: <%.40s", s);
		if (*s == '?' || *s == '!')
			continue;
		bool closing = *s == '/', empty = end[-1] == '/';
		s += closing;
		int len = (int)strcspn(s, " \t\n/>");
		CHECK(len > 0 && len < NAME, "tag without a name: %.40s", s);
		if (closing) {
			CHECK(depth > 0 && (int)strlen(open[depth - 1]) == len &&
				      !memcmp(open[depth - 1], s, (size_t)len),
			      "</%.*s> closes no tag", len, s);
			depth--;
		} else {
			roots += depth == 0;
			CHECK(depth < DEPTH, "nested too deep");
			if (!empty)
				snprintf(open[depth++], NAME, "%.*s", len, s);
		}
		s = end;
	}
	CHECK(depth == 0 && roots == 1, "%d tags left open, %d roots", depth, roots);
}

/* The number in attribute @name of the last tag that begins with @tag. */
static size_t xml_number(const char *text, const char *tag, const char *name)
{
	const char *found = NULL, *value;

	for (const char *s = strstr(text, tag); s; s = strstr(s + 1, tag))
		found = s;
	CHECK(found, "malloc_info: no %s in %s", tag, text);
	value = strstr(found, name);
	CHECK(value && value < strchr(found, '>'), "malloc_info: no %s in %.60s", name, found);
	return strtoul(value + strlen(name) + 2, NULL, 10);
}

/* The totals that readers of glibc's version 1 look for are there, and fit together. */
static void check_totals(const char *text)
{
	size_t system = xml_number(text, "<system type=\"current\"", "size");
	/* glibc has none since 2.43. */
	bool none =
		strverscmp(gnu_get_libc_version(), "2.43") >= 0 && !strstr(text, "\"fast\"");
	size_t fast = none ? 0 : xml_number(text, "<total type=\"fast\"", "size");
	size_t rest = xml_number(text, "<total type=\"rest\"", "size");
	size_t mmapped = xml_number(text, "<total type=\"mmap\"", "size");

	CHECK(!strncmp(text, "<malloc version=\"1\">", 20), "malloc_info: %.40s", text);
	CHECK(strstr(text, "<heap nr=\"0\">") && strstr(text, "<sizes>"), "no heap");
	CHECK(fast + rest <= system + mmapped, "%zu + %zu free of %zu", fast, rest, system);
	CHECK(xml_number(text, "<system type=\"max\"", "size") >= system, "max below current");
	CHECK(xml_number(text, "<aspace type=\"total\"", "size") > 0, "no address space");
}

void test_reports(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	CHECK(f && malloc_info(0, f) == 0 && fclose(f) == 0, "malloc_info");
	check_xml(text);
	check_totals(text);
	free(text);
	CHECK(malloc_info(1, stdout) != 0, "malloc_info accepts unknown options");

	FILE *sink = tmpfile();
	int saved = dup(STDERR_FILENO);
	CHECK(sink && saved >= 0 && dup2(fileno(sink), STDERR_FILENO) >= 0,
	      "no temporary file");
	malloc_stats();
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	CHECK(lseek(fileno(sink), 0, SEEK_END) > 0, "malloc_stats wrote nothing to stderr");
	fclose(sink);
	close(saved);
}
