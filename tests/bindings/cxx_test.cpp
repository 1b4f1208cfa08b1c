/* SPDX-License-Identifier: MIT */
/* The headers of C++, compiled as C++17, 20 and 23 by gcc and by clang. */
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <ukmem/ukmem.h>
#include <ukmem/ukmem.hpp>

namespace
{

size_t allocated()
{
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	return g.allocated;
}

/* A size the compiler cannot see, so that it does not refuse the call. */
size_t opaque(size_t n)
{
	volatile size_t v = n;

	return v;
}

/* ---- allocate() */

TEST(Allocate, EverySizeHasEveryAlignment)
{
	for (size_t align = 1; align <= 65536; align *= 2)
		for (size_t size : { 0, 1, 7, 8, 24, 100, 192, 4000, 4097, 65536, 100000 }) {
			void *blocks[3]; /* the first of a slab says little */

			for (void *&p : blocks) {
				p = ukmem::allocate(size, align);
				ASSERT_NE(p, nullptr) << size << " " << align;
				EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
				memset(p, 0xff, size);
			}
			for (void *p : blocks)
				ukmem::deallocate(p, size, align);
		}
	ukmem::deallocate(nullptr, 8, 8);
	ukmem::deallocate(nullptr, 8, 8192);
}

TEST(Allocate, TooMuchIsNull)
{
	const gfp_t quiet = GFP_KERNEL | __GFP_NOWARN;

	EXPECT_EQ(ukmem::allocate(opaque(SIZE_MAX), 1, quiet), nullptr);
	EXPECT_EQ(ukmem::allocate(opaque(SIZE_MAX - 7), 4096, quiet), nullptr)
		<< "rounding up wraps";
	EXPECT_EQ(ukmem::allocate(opaque(SIZE_MAX), 8192, quiet), nullptr);
	EXPECT_EQ(ukmem::allocate(opaque(1), size_t{ 1 } << 63, quiet), nullptr);
}

/* ---- the standard allocator */

struct alignas(128) wide {
	char bytes[136];
};

struct alignas(16384) very_wide {
	char byte;
};

TEST(Allocator, ServesContainers)
{
	std::vector<int, ukmem::allocator<int>> v;
	std::map<int, std::string, std::less<>,
		 ukmem::allocator<std::pair<const int, std::string>>>
		m;
	std::unordered_map<int, int, std::hash<int>, std::equal_to<>,
			   ukmem::allocator<std::pair<const int, int>>>
		u;

	for (int i = 0; i < 10000; i++) {
		v.push_back(i);
		m[i] = std::to_string(i);
		u[i] = -i;
	}
	for (int i = 0; i < 10000; i++) {
		ASSERT_EQ(v[static_cast<size_t>(i)], i);
		ASSERT_EQ(m[i], std::to_string(i));
		ASSERT_EQ(u[i], -i);
	}
	auto moved = std::move(v);
	EXPECT_EQ(moved.size(), 10000u);
	EXPECT_TRUE(moved.get_allocator() == ukmem::allocator<long>());
	EXPECT_FALSE(moved.get_allocator() != ukmem::allocator<long>());
}

TEST(Allocator, MemoryIsTheLibrarys)
{
	const size_t before = allocated();
	std::vector<char, ukmem::allocator<char>> v(1 << 20);

	EXPECT_GE(allocated(), before + (1 << 20));
	EXPECT_GE(ksize(v.data()), size_t{ 1 } << 20);
}

TEST(Allocator, AlignsAsTheTypeWants)
{
	std::list<wide, ukmem::allocator<wide>> wides(50);
	std::vector<very_wide, ukmem::allocator<very_wide>> very(3);

	for (const wide &w : wides)
		EXPECT_EQ(reinterpret_cast<uintptr_t>(&w) % 128, 0u);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(very.data()) % 16384, 0u);
}

TEST(Allocator, ThrowsWhatTheStandardSays)
{
	ukmem::allocator<wide> a;
	const size_t many = PTRDIFF_MAX / sizeof(wide);

	EXPECT_THROW((void)a.allocate(opaque(many + 1)), std::bad_array_new_length);
	EXPECT_THROW((void)a.allocate(opaque(many)), std::bad_alloc);
}

TEST(Allocator, NothingIsConstructedByItself)
{
	static_assert(std::is_empty_v<ukmem::allocator<int>>);
	static_assert(std::allocator_traits<ukmem::allocator<int>>::is_always_equal::value);
	static_assert(std::is_nothrow_copy_constructible_v<ukmem::allocator<int>>);
	std::allocator_traits<ukmem::allocator<int>>::rebind_alloc<char> other =
		ukmem::allocator<int>();
	char *p = other.allocate(0);

	EXPECT_NE(p, nullptr);
	other.deallocate(p, 0);
}

#if defined(__cpp_lib_allocate_at_least)
TEST(Allocator, TellsWhatFits)
{
	ukmem::allocator<int> a;
	auto [p, n] = a.allocate_at_least(33);

	EXPECT_EQ(n, ksize(p) / sizeof(int));
	EXPECT_GE(n, 36u);
	std::fill_n(p, n, 7);
	a.deallocate(p, n);
	ukmem::allocator<very_wide> b;
	auto [q, m] = b.allocate_at_least(1);

	EXPECT_EQ(m, 1u);
	b.deallocate(q, m);
}
#endif

/* ---- memory resources */

TEST(Resource, OfKmalloc)
{
	std::pmr::memory_resource *r = ukmem::kmalloc_resource();
	std::pmr::vector<std::pmr::string> v(r);

	for (int i = 0; i < 1000; i++)
		v.emplace_back(std::string(static_cast<size_t>(i), 'x'));
	EXPECT_EQ(v[999].size(), 999u);
	EXPECT_EQ(v[999].get_allocator().resource(), r);
	EXPECT_GE(ksize(v.data()), 1000 * sizeof(v[0]));
	EXPECT_EQ(r, ukmem::kmalloc_resource());
	EXPECT_TRUE(*r == *ukmem::kmalloc_resource());
	EXPECT_FALSE(*r == *std::pmr::new_delete_resource());
	EXPECT_THROW((void)r->allocate(opaque(SIZE_MAX / 2), 8), std::bad_alloc);
}

TEST(Resource, OfKmallocEndsAfterEveryStatic)
{
	static std::pmr::vector<int> late(ukmem::kmalloc_resource());

	late.assign(1000, 1); /* freed by exit() */
}

TEST(Resource, OfACache)
{
	ukmem::cache_resource nodes("nodes", 64, 32);
	struct kmem_cache *s = nodes.get();
	{
		std::pmr::list<int> list(&nodes);

		for (int i = 0; i < 100; i++)
			list.push_back(i);
		EXPECT_EQ(kmem_cache_nr_allocated(s), 100u);
		EXPECT_EQ(kmem_cache_find("nodes"), s);
	}
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	EXPECT_TRUE(nodes == nodes);
	EXPECT_FALSE(nodes == *ukmem::kmalloc_resource());
}

TEST(Resource, OfACacheWithTheDefaultAlignment)
{
	ukmem::cache_resource plain("plain", 64, 0);
	void *p = plain.allocate(64, alignof(std::max_align_t));

	EXPECT_EQ(kmem_cache_nr_allocated(plain.get()), 1u);
	plain.deallocate(p, 64, alignof(std::max_align_t));
}

TEST(Resource, OfACachePassesOnWhatIsTooLarge)
{
	std::pmr::monotonic_buffer_resource upstream(4096, std::pmr::new_delete_resource());
	ukmem::cache_resource small("small", 16, 16, 0, &upstream);
	void *fits = small.allocate(16, 16), *large = small.allocate(17, 8),
	     *wide = small.allocate(16, 32);

	EXPECT_EQ(kmem_cache_nr_allocated(small.get()), 1u);
	EXPECT_EQ(small.upstream_resource(), &upstream);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(wide) % 32, 0u);
	small.deallocate(fits, 16, 16);
	small.deallocate(large, 17, 8);
	small.deallocate(wide, 16, 32);
	EXPECT_EQ(kmem_cache_nr_allocated(small.get()), 0u);
}

TEST(Resource, OfAnImpossibleCache)
{
	EXPECT_THROW(ukmem::cache_resource("too large", 20000), std::bad_alloc);
	EXPECT_THROW(ukmem::cache_resource("wraps", (size_t{ 1 } << 32) + 64), std::bad_alloc);
}

/* ---- caches of objects */

struct point {
	point(int a, int b) : x(a), y(b)
	{
		if (a < 0)
			throw std::out_of_range("a");
		living++;
	}
	point(const point &) = delete;
	~point()
	{
		living--;
	}
	int x, y;
	static inline int living;
};

TEST(Cache, MakesAndEndsObjects)
{
	ukmem::cache<point> points("cxx point", SLAB_HWCACHE_ALIGN);
	point *p = points.create(3, 4);

	EXPECT_EQ(p->x + p->y, 7);
	EXPECT_EQ(points.size(), 1u);
	EXPECT_EQ(point::living, 1);
	EXPECT_EQ(kmem_cache_size(points.get()), sizeof(point));
	points.destroy(p);
	points.destroy(nullptr);
	EXPECT_EQ(points.size(), 0u);
	EXPECT_EQ(point::living, 0);
	point *now = points.try_create(GFP_NOWAIT, 1, 2);
	ASSERT_NE(now, nullptr);
	points.destroy(now);
	points.shrink();
}

TEST(Cache, ConstructorThatThrowsLeavesNothing)
{
	ukmem::cache<point> points("cxx throws");

	EXPECT_THROW((void)points.create(-1, 0), std::out_of_range);
	EXPECT_EQ(points.size(), 0u);
	EXPECT_EQ(point::living, 0);
}

TEST(Cache, FailureThrowsOrIsNull)
{
	ukmem::cache<point> points("cxx fails");

	kmem_cache_fail(points.get(), 0, 2);
	EXPECT_THROW((void)points.create(1, 2), std::bad_alloc);
	EXPECT_EQ(points.try_create(GFP_KERNEL, 1, 2), nullptr);
	EXPECT_EQ(point::living, 0);
	points.destroy(points.create(1, 2));
}

TEST(Cache, OwnersDestroy)
{
	ukmem::cache<point> points("cxx owners");
	{
		std::vector<ukmem::cache_ptr<point>> owned;

		for (int i = 0; i < 100; i++)
			owned.push_back(points.make(i, i));
		EXPECT_EQ(points.size(), 100u);
	}
	EXPECT_EQ(points.size(), 0u);
	std::shared_ptr<point> shared = points.make(1, 1);
	ukmem::cache_ptr<const point> constant = points.make(1, 1);
	static_assert(
		!std::is_convertible_v<ukmem::cache_ptr<const point>, ukmem::cache_ptr<point>>);
	constant.reset();
	EXPECT_EQ(points.size(), 1u);
	shared.reset();
	EXPECT_EQ(points.size(), 0u);
}

TEST(Cache, Moves)
{
	ukmem::cache<point> a("cxx a"), b("cxx b");
	struct kmem_cache *of_b = b.get();
	point *p = b.create(1, 1);

	a = std::move(b);
	EXPECT_EQ(a.get(), of_b);
	EXPECT_EQ(kmem_cache_find("cxx a"), nullptr) << "its first cache was destroyed";
	ukmem::cache<point> c(std::move(a));
	EXPECT_EQ(c.get(), of_b);
	EXPECT_EQ(a.get(), nullptr); /* NOLINT: what moving leaves */
	c.destroy(p);
}

TEST(Cache, ObjectsOutliveTheirCache)
{
	point *p;
	{
		ukmem::cache<point> points("cxx outlived");

		p = points.create(5, 6);
		testing::internal::CaptureStderr();
	}
	EXPECT_NE(testing::internal::GetCapturedStderr().find("cxx outlived"),
		  std::string::npos);
	EXPECT_EQ(p->x + p->y, 11);
	struct kmem_cache *s = kmem_cache_find("cxx outlived");
	ASSERT_NE(s, nullptr);
	ukmem::cache_delete<point>{ s }(p);
	kmem_cache_destroy(s);
}

TEST(Cache, OfAlignedObjects)
{
	ukmem::cache<wide> wides("cxx wide");
	wide *one = wides.create(), *two = wides.create();

	EXPECT_EQ(reinterpret_cast<uintptr_t>(one) % 128, 0u);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(two) % 128, 0u);
	wides.destroy(one);
	wides.destroy(two);
}

/* ---- per-CPU variables */

TEST(PerCpu, CountsExactly)
{
	ukmem::per_cpu<unsigned long> n;
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&n] {
			for (int i = 0; i < 100000; i++) {
				n.inc();
				n.add(3);
				n.sub(1);
				n.dec();
			}
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(n.sum(), 800000u);
	unsigned long by_copy = 0;
	n.for_each([&by_copy](unsigned long copy) { by_copy += copy; });
	EXPECT_EQ(by_copy, 800000u);
}

enum class color : uint8_t { red, green };

TEST(PerCpu, OfEveryKindOfWord)
{
	ukmem::per_cpu<int16_t> small;
	ukmem::per_cpu<color> colors;
	ukmem::per_cpu<bool> flag;
	ukmem::per_cpu<const char *> text;
	ukmem::per_cpu<int64_t> loops;
	int64_t old = loops.read();

	EXPECT_EQ(small.add_return(-5), -5);
	EXPECT_EQ(small.sum(), -5);
	EXPECT_EQ(colors.xchg(color::green), color::red);
	flag.write(true);
	EXPECT_EQ(text.xchg("now"), nullptr);
	while (!loops.try_cmpxchg(old, old + 1)) {
	}
	EXPECT_EQ(loops.sum(), 1);
}

struct traffic {
	uint64_t packets, bytes;
};

TEST(PerCpu, OfAStructureAndMoves)
{
	ukmem::per_cpu<traffic> a, b;
	traffic *of_b = b.handle();

	this_cpu_add(b.handle()->bytes, 1500);
	a = std::move(b);
	EXPECT_EQ(a.handle(), of_b);
	EXPECT_EQ(b.handle(), nullptr); /* NOLINT: what moving leaves */
	ukmem::per_cpu<traffic> c(std::move(a));
	EXPECT_EQ(per_cpu_sum(c.handle()->bytes), 1500u);
	uint64_t packets = 1;
	c.for_each([&packets](const traffic &t) { packets += t.packets; });
	EXPECT_EQ(packets, 1u);
	const ukmem::per_cpu<traffic> &reader = c;
	uint64_t bytes = 0;
	reader.for_each([&bytes](auto &t) {
		static_assert(std::is_const_v<std::remove_reference_t<decltype(t)>>);
		bytes += t.bytes;
	});
	EXPECT_EQ(bytes, 1500u);
}

template <typename T, typename = void> struct counts : std::false_type {
};
template <typename T>
struct counts<T, std::void_t<decltype(std::declval<ukmem::per_cpu<T>>().inc())>>
    : std::true_type {
};
static_assert(counts<int>::value && counts<char>::value);
static_assert(!counts<bool>::value && !counts<int *>::value && !counts<color>::value);
static_assert(!counts<traffic>::value);

/* ---- queues */

TEST(AlfQueue, KeepsOrder)
{
	ukmem::alf_queue<int> q(8);
	int values[10] = {};
	int *in[10], *out[10] = {};

	for (int i = 0; i < 10; i++)
		in[i] = &values[i];
	EXPECT_TRUE(q.empty());
	EXPECT_EQ(q.capacity(), 8u);
	EXPECT_EQ(q.mc_dequeue(), nullptr);
	EXPECT_TRUE(q.mp_enqueue(in[0]));
	EXPECT_EQ(q.mp_enqueue_bulk(in, 10), 0u);
	EXPECT_EQ(q.mp_enqueue_burst(in + 1, 9), 7u);
	EXPECT_FALSE(q.mp_enqueue(in[9]));
	EXPECT_EQ(q.size(), 8u);
	EXPECT_EQ(q.mc_dequeue_bulk(out, 9), 0u);
	EXPECT_EQ(q.mc_dequeue(), in[0]);
	EXPECT_EQ(q.mc_dequeue_burst(out, 10), 7u);
	EXPECT_TRUE(std::equal(out, out + 7, in + 1));
}

TEST(AlfQueue, SingleSides)
{
	ukmem::alf_queue<const char> q(4, ALF_QUEUE_CHECK);
	const char *in[3] = { "a", "b", "c" }, *out[4] = {};

	EXPECT_TRUE(q.sp_enqueue(in[0]));
	EXPECT_EQ(q.sp_enqueue_bulk(in + 1, 2), 2u);
	EXPECT_EQ(q.sp_enqueue_burst(in, 3), 1u);
	EXPECT_FALSE(q.sp_enqueue(in[0]));
	EXPECT_EQ(q.sc_dequeue(), in[0]);
	EXPECT_EQ(q.sc_dequeue_bulk(out, 2), 2u);
	EXPECT_EQ(out[1], in[2]);
	EXPECT_EQ(q.sc_dequeue_burst(out, 4), 1u);
	EXPECT_EQ(q.sc_dequeue(), nullptr);
	q.hand_over();
	EXPECT_TRUE(q.mp_enqueue(in[0]));
}

TEST(AlfQueue, BetweenThreads)
{
	ukmem::alf_queue<long> q(256);
	std::vector<long> values(20000, 1);
	std::atomic<long> sum{ 0 };
	std::atomic<size_t> got{ 0 };
	std::vector<std::thread> threads;

	for (int t = 0; t < 2; t++)
		threads.emplace_back([&, t] {
			for (size_t i = static_cast<size_t>(t); i < values.size(); i += 2)
				while (!q.mp_enqueue(&values[i]))
					std::this_thread::yield();
		});
	for (int t = 0; t < 2; t++)
		threads.emplace_back([&] {
			while (got < values.size()) {
				long *p = q.mc_dequeue();

				if (!p) {
					std::this_thread::yield();
					continue;
				}
				sum += std::exchange(*p, 0);
				got++;
			}
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(sum, 20000);
}

TEST(AlfQueue, RefusesAndMoves)
{
	EXPECT_THROW(ukmem::alf_queue<int>(3), std::invalid_argument);
	EXPECT_THROW(ukmem::alf_queue<int>(4, 64), std::invalid_argument);
	ukmem::alf_queue<int> a(2), b(4);
	int one = 1;

	b.mp_enqueue(&one);
	a = std::move(b);
	EXPECT_EQ(b.get(), nullptr); /* NOLINT: what moving leaves */
	ukmem::alf_queue<int> c(std::move(a));
	EXPECT_EQ(c.capacity(), 4u);
	EXPECT_EQ(c.mc_dequeue(), &one);
}

} // namespace
