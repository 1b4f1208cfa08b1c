/* SPDX-License-Identifier: MIT */
/*
 * Bytes and objects by call site. tagged.c is compiled with UKMEM_ALLOC_TAGS, this file is not;
 * so its kfree() and kmalloc() are those of code that knows nothing of tags.
 */
#include <sys/wait.h>

#include <algorithm>
#include <map>

#include "matched.h"
#include "printed.h"
#include "tagged.h"
#include "test_util.h"
#include "ukmem/alloc_tag.h"

namespace
{

struct Count {
	int64_t bytes = 0, objects = 0;

	bool operator==(const Count &other) const
	{
		return bytes == other.bytes && objects == other.objects;
	}
};

void PrintTo(const Count &c, std::ostream *out)
{
	*out << c.bytes << " bytes in " << c.objects;
}

/* What a reader from outside sees of the sites of a function: through the table alone. */
Count counted(const std::string &function)
{
	const auto &table = ukmem_alloc_tag_table;
	Count sum;

	EXPECT_EQ(table.version, 1u);
	EXPECT_EQ(table.tag_size, sizeof(struct ukmem_alloc_tag));
	for (uint32_t id = 1; id <= table.nr; id++) {
		const auto *tag = table.tags[id];

		if (!tag || tag->function != function)
			continue;
		EXPECT_EQ(tag->id, id);
		Count here;
		for (uint32_t i = 0; i < table.copies; i++) {
			auto *copy = reinterpret_cast<struct ukmem_alloc_tag_counters *>(
				reinterpret_cast<char *>(tag->counters) + table.base +
				i * table.stride);

			here.bytes += copy->bytes;
			here.objects += copy->objects;
		}
		auto read = ukmem_alloc_tag_read(tag);
		EXPECT_EQ(read.bytes, here.bytes);
		EXPECT_EQ(read.objects, here.objects);
		sum.bytes += here.bytes;
		sum.objects += here.objects;
	}
	return sum;
}

TEST(AllocTag, EverySiteIsRegisteredOnce)
{
	std::map<std::pair<std::string, uint32_t>, int> seen;

	EXPECT_GE(ukmem_alloc_tag_table.nr, 12u);
	for (uint32_t id = 1; id <= ukmem_alloc_tag_table.nr; id++) {
		const auto *tag = ukmem_alloc_tag_table.tags[id];

		EXPECT_NE(std::string(tag->file).find("tagged.c"), std::string::npos);
		EXPECT_GT(tag->line, 0u);
		seen[{ tag->function, tag->line }]++;
	}
	for (const auto &[site, n] : seen) /* tagged_arrays has two in a line */
		EXPECT_EQ(n, site.first == "tagged_arrays" ? 2 : 1) << site.first;
}

TEST(AllocTag, BytesAreThoseAskedFor)
{
	void *a = tagged_kmalloc(100), *b = tagged_kmalloc(1), *c = tagged_kmalloc(1000000);

	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 1000101, 3 }));
	tagged_kfree(b);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 1000100, 2 }));
	tagged_kfree(c);
	tagged_kfree(a);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
	tagged_kfree(nullptr);
	tagged_kfree(tagged_kmalloc(0));
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
}

TEST(AllocTag, EachKindOfRequest)
{
	void *a = tagged_kzalloc(50), *b = tagged_arrays(3, 100, 0),
	     *c = tagged_arrays(2, 7, 1);
	void *d = tagged_vmalloc(5000), *e = tagged_kmemdup("0123456789", 10);
	char *f = tagged_kstrdup("four");

	for (int i = 0; i < 50; i++)
		ASSERT_EQ(static_cast<char *>(a)[i], 0);
	EXPECT_EQ(memcmp(e, "0123456789", 10), 0);
	EXPECT_STREQ(f, "four");
	EXPECT_EQ(reinterpret_cast<uintptr_t>(d) % ukmem_page_size(), 0u);
	EXPECT_EQ(counted("tagged_kzalloc"), (Count{ 50, 1 }));
	EXPECT_EQ(counted("tagged_arrays"), (Count{ 314, 2 }));
	EXPECT_EQ(counted("tagged_vmalloc"), (Count{ 5000, 1 }));
	EXPECT_EQ(counted("tagged_kmemdup"), (Count{ 10, 1 }));
	EXPECT_EQ(counted("tagged_kstrdup"), (Count{ 5, 1 }));
	void *some[] = { a, b, c, e, f };
	tagged_kfree_bulk(5, some);
	tagged_vfree(d);
	EXPECT_EQ(tagged_arrays(SIZE_MAX / 2, 3, 0), nullptr);
	for (const char *name : { "tagged_kzalloc", "tagged_arrays", "tagged_vmalloc",
				  "tagged_kmemdup", "tagged_kstrdup" })
		EXPECT_EQ(counted(name), (Count{ 0, 0 })) << name;
	EXPECT_EQ(tagged_kstrdup(nullptr), nullptr);
}

/* What is freed is uncounted, by whatever name. */
TEST(AllocTag, EachKindOfFree)
{
	static const char literal[] = "no block of the library";
	void *p[5];

	for (auto &q : p)
		q = tagged_kvmalloc(1000);
	EXPECT_EQ(counted("tagged_kvmalloc"), (Count{ 5000, 5 }));
	tagged_kfree(p[0]);
	tagged_kfree_sensitive(p[1]);
	tagged_kfree_const(p[2]);
	EXPECT_EQ(counted("tagged_kvmalloc"), (Count{ 2000, 2 }));
	tagged_kvfree(p[3]);
	tagged_kvfree_sensitive(p[4], 1000);
	EXPECT_EQ(counted("tagged_kvmalloc"), (Count{ 0, 0 }));
	tagged_kfree_const(literal);
	tagged_kfree_const(nullptr);
	tagged_kvfree(nullptr);
	void *wide = tagged_vmalloc(100000);
	tagged_kvfree(wide);
	EXPECT_EQ(counted("tagged_vmalloc"), (Count{ 0, 0 }));
}

TEST(AllocTag, Resizing)
{
	void *p = tagged_kmalloc(100);

	p = tagged_krealloc(p, 110); /* in place */
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 110, 1 }));
	p = tagged_krealloc(p, 100000);
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 100000, 1 }));
	EXPECT_EQ(tagged_krealloc(p, PTRDIFF_MAX), nullptr);
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 100000, 1 })) << "it is where it was";
	tagged_krealloc(p, 0);
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 0, 0 }));
	p = tagged_krealloc(nullptr, 3);
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 3, 1 }));
	tagged_kfree(p);
	EXPECT_EQ(counted("tagged_krealloc"), (Count{ 0, 0 }));
}

/* A small block that has tags is larger than was asked for. */
TEST(AllocTag, ResizingToSmallSizesZeroesTheRest)
{
	for (size_t size = 1; size < 16; size++) {
		auto *p = static_cast<char *>(tagged_kzalloc(100));

		memset(p, 'x', 100);
		p = static_cast<char *>(tagged_krealloc_zeroed(p, size));
		p = static_cast<char *>(tagged_krealloc_zeroed(p, 100));
		ASSERT_NE(p, nullptr);
		EXPECT_EQ(std::string(p, 100),
			  std::string(size, 'x') + std::string(100 - size, '\0'));
		tagged_kfree(p);
	}
}

TEST(AllocTag, Caches)
{
	struct kmem_cache *s = kmem_cache_create("witness", 40, 0, 0, nullptr);
	void *p[50];

	ASSERT_NE(s, nullptr);
	void *one = tagged_cache(s, GFP_KERNEL);
	ASSERT_EQ(tagged_bulk(s, 50, p), 50);
	void *lru = tagged_cache_lru(s);
	EXPECT_EQ(counted("tagged_cache_lru"), (Count{ 40, 1 }));
	tagged_cache_free(s, lru);
	EXPECT_EQ(counted("tagged_cache_lru"), (Count{ 0, 0 }));
	EXPECT_EQ(counted("tagged_cache"), (Count{ 40, 1 }));
	EXPECT_EQ(counted("tagged_bulk"), (Count{ 2000, 50 }));
	tagged_cache_free(s, one);
	tagged_cache_free_bulk(s, 25, p);
	tagged_kfree_bulk(25, p + 25);
	EXPECT_EQ(counted("tagged_cache"), (Count{ 0, 0 }));
	EXPECT_EQ(counted("tagged_bulk"), (Count{ 0, 0 }));
	kmem_cache_destroy(s);
}

/* Two objects of 8 bytes would have one entry: none is counted, and none uncounts another. */
TEST(AllocTag, ObjectsThatShareAnEntryAreNotCounted)
{
	struct kmem_cache *s = kmem_cache_create("tiny", 8, 0, 0, nullptr);
	void *a = tagged_cache(s, GFP_KERNEL), *b = tagged_cache(s, GFP_KERNEL);

	EXPECT_EQ(counted("tagged_cache"), (Count{ 0, 0 }));
	tagged_cache_free(s, a);
	tagged_cache_free(s, b);
	EXPECT_EQ(counted("tagged_cache"), (Count{ 0, 0 }));
	kmem_cache_destroy(s);
	void *p[300];
	for (auto &q : p)
		q = tagged_kmalloc(8);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 2400, 300 }));
	for (auto q : p)
		tagged_kfree(q);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
}

TEST(AllocTag, ACallInTheArgumentsOfAnother)
{
	void *p = tagged_nested();

	EXPECT_EQ(counted("tagged_nested"), (Count{ 100, 1 }));
	tagged_kfree(p);
	EXPECT_EQ(counted("tagged_nested"), (Count{ 0, 0 }));
}

/* What code without tags frees stays counted until the address comes back. */
TEST(AllocTag, WithCodeThatHasNoTags)
{
	void *p = tagged_kmalloc(333), *q;

	kfree(p);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 333, 1 }));
	q = tagged_kzalloc(330);
	ASSERT_EQ(q, p) << "the array gives it back first";
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
	EXPECT_EQ(counted("tagged_kzalloc"), (Count{ 330, 1 }));
	kfree(q);
	p = kmalloc(330, GFP_KERNEL);
	ASSERT_EQ(q, p);
	tagged_kfree(p);
	EXPECT_EQ(counted("tagged_kzalloc"), (Count{ 0, 0 }));
	p = kmalloc(330, GFP_KERNEL);
	tagged_kfree(p);
	EXPECT_EQ(counted("tagged_kzalloc"), (Count{ 0, 0 })) << "it had no tag";
}

/* Allocated on one CPU and freed on another one: the sum is exact. */
TEST(AllocTag, ManyThreads)
{
	constexpr unsigned kThreads = 4, kObjects = 2000;
	static std::atomic<void *> box[kObjects];
	std::vector<std::thread> threads;

	for (unsigned t = 0; t < kThreads; t++)
		threads.emplace_back([t] {
			std::minstd_rand random(t);

			for (unsigned i = 0; i < 50000 / kSlow; i++)
				tagged_kfree(box[random() % kObjects].exchange(
					tagged_kmalloc(16 + random() % 300)));
		});
	for (auto &t : threads)
		t.join();
	int64_t objects = 0;
	for (auto &b : box)
		objects += b != nullptr;
	EXPECT_EQ(counted("tagged_kmalloc").objects, objects);
	for (auto &b : box)
		tagged_kfree(b);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 0, 0 }));
}

TEST(AllocTag, TheChildOfAForkCountsForItself)
{
	void *p = tagged_kmalloc(100);
	pid_t child = fork();

	if (!child) {
		tagged_kfree(p);
		void *q = tagged_kzalloc(7);
		exit_child(counted("tagged_kmalloc") == Count{} &&
					   counted("tagged_kzalloc") == Count{ 7, 1 } && q
				   ? 0
				   : 1);
	}
	int status = 1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(counted("tagged_kmalloc"), (Count{ 100, 1 }));
	tagged_kfree(p);
}

TEST(AllocTag, Printed)
{
	void *p = tagged_kmalloc(12345);
	std::string text = printed(ukmem_alloc_tags_print);

	EXPECT_EQ(text.rfind("allocinfo - version: 1.0\n#     <size>  <calls> <tag info>\n", 0),
		  0u)
		<< text;
	EXPECT_FALSE(
		matched(text, "^ +12345 +1 [^ ]*tagged.c:[0-9]+ func:tagged_kmalloc$").empty())
		<< text;
	EXPECT_EQ(static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n')),
		  ukmem_alloc_tag_table.nr + 2);
	tagged_kfree(p);
}

/* Requests that must not wait make no system call for the side table. */
TEST(AllocTag, RequestsThatMustNotWait)
{
	struct kmem_cache *s = kmem_cache_create("witness", 64, 0, 0, nullptr);
	void *first = kmem_cache_alloc(s, GFP_KERNEL);
	OsCallsGuard guard;
	static int calls;

	ASSERT_NE(first, nullptr);
	os_calls.mmap = [](void **, size_t, int, int) { return calls++, -ENOMEM; };
	void *p = tagged_cache(s, GFP_NOWAIT);
	EXPECT_NE(p, nullptr);
	EXPECT_EQ(calls, 0);
	tagged_cache_free(s, p);
	EXPECT_EQ(counted("tagged_cache"), (Count{ 0, 0 }));
	kmem_cache_free(s, first);
	kmem_cache_destroy(s);
}

} // namespace
