// SPDX-License-Identifier: MIT
//
// The C++ surface: every form of operator new and delete, std::bad_alloc and the
// new-handler, alignment, and containers and memory resources under churn.
//
//	operators_test
//
// The operators are called as functions: of new-expressions the compiler may
// leave out both calls.
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "preload_test.h"

namespace
{

using std::align_val_t;
using std::nothrow;

constexpr std::size_t default_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
constexpr std::size_t mib = std::size_t{ 1 } << 20;

// A size that the compiler does not know.
std::size_t unknown(std::size_t size)
{
	volatile std::size_t hidden = size;
	return hidden;
}

// One way to get memory and one to give it back that goes with it.
struct form {
	const char *name;
	bool throws;
	bool aligned;
	void *(*get)(std::size_t size, align_val_t alignment);
	void (*give)(void *p, std::size_t size, align_val_t alignment);
};

const form forms[] = {
	{ "new, delete", true, false,
	  [](std::size_t n, align_val_t) { return ::operator new(n); },
	  [](void *p, std::size_t, align_val_t) { ::operator delete(p); } },
	{ "new, sized delete", true, false,
	  [](std::size_t n, align_val_t) { return ::operator new(n); },
	  [](void *p, std::size_t n, align_val_t) { ::operator delete(p, n); } },
	{ "nothrow new, nothrow delete", false, false,
	  [](std::size_t n, align_val_t) { return ::operator new(n, nothrow); },
	  [](void *p, std::size_t, align_val_t) { ::operator delete(p, nothrow); } },
	{ "new[], delete[]", true, false,
	  [](std::size_t n, align_val_t) { return ::operator new[](n); },
	  [](void *p, std::size_t, align_val_t) { ::operator delete[](p); } },
	{ "new[], sized delete[]", true, false,
	  [](std::size_t n, align_val_t) { return ::operator new[](n); },
	  [](void *p, std::size_t n, align_val_t) { ::operator delete[](p, n); } },
	{ "nothrow new[], nothrow delete[]", false, false,
	  [](std::size_t n, align_val_t) { return ::operator new[](n, nothrow); },
	  [](void *p, std::size_t, align_val_t) { ::operator delete[](p, nothrow); } },
	{ "aligned new, delete", true, true,
	  [](std::size_t n, align_val_t a) { return ::operator new(n, a); },
	  [](void *p, std::size_t, align_val_t a) { ::operator delete(p, a); } },
	{ "aligned new, sized delete", true, true,
	  [](std::size_t n, align_val_t a) { return ::operator new(n, a); },
	  [](void *p, std::size_t n, align_val_t a) { ::operator delete(p, n, a); } },
	{ "aligned nothrow new, nothrow delete", false, true,
	  [](std::size_t n, align_val_t a) { return ::operator new(n, a, nothrow); },
	  [](void *p, std::size_t, align_val_t a) { ::operator delete(p, a, nothrow); } },
	{ "aligned new[], delete[]", true, true,
	  [](std::size_t n, align_val_t a) { return ::operator new[](n, a); },
	  [](void *p, std::size_t, align_val_t a) { ::operator delete[](p, a); } },
	{ "aligned new[], sized delete[]", true, true,
	  [](std::size_t n, align_val_t a) { return ::operator new[](n, a); },
	  [](void *p, std::size_t n, align_val_t a) { ::operator delete[](p, n, a); } },
	{ "aligned nothrow new[], nothrow delete[]", false, true,
	  [](std::size_t n, align_val_t a) { return ::operator new[](n, a, nothrow); },
	  [](void *p, std::size_t, align_val_t a) { ::operator delete[](p, a, nothrow); } },
};

void check_served(const form &f, std::size_t alignment)
{
	const align_val_t a{ alignment };
	const std::size_t wanted = f.aligned ? alignment : default_alignment;
	for (std::size_t size = 0; size < 4 * mib; size += size < 600 ? 1 : size / 5) {
		void *p = f.get(unknown(size), a), *q = f.get(unknown(size), a);
		CHECK(p && q && p != q, "%s: %p and %p for %zu bytes", f.name, p, q, size);
		for (void *block : { p, q }) {
			// Alignment is asked for where an object of that size can have it.
			const std::size_t due = f.aligned || size >= wanted ? wanted : 8;
			CHECK(reinterpret_cast<std::uintptr_t>(block) % due == 0,
			      "%s: %p for %zu bytes is not aligned to %zu", f.name, block, size,
			      due);
			CHECK(malloc_usable_size(block) >= size, "%s: %zu usable of %zu",
			      f.name, malloc_usable_size(block), size);
		}
		std::memset(p, 0x11, size);
		std::memset(q, 0x22, size);
		// Its first byte is as it was, and each other one is as the one before.
		const char *first = static_cast<char *>(p);
		CHECK(!size || (*first == 0x11 && !std::memcmp(first, first + 1, size - 1)),
		      "%s: blocks overlap", f.name);
		f.give(p, size, a);
		f.give(q, size, a);
	}
	f.give(nullptr, 0, a);
}

// expect_refusal - @size from @f ends in std::bad_alloc or, for nothrow, in nullptr.
void expect_refusal(const form &f, std::size_t size, std::size_t alignment = 64)
{
	void *p = nullptr;
	bool thrown = false;
	try {
		p = f.get(unknown(size), align_val_t{ alignment });
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	CHECK(!p, "%s: %zu bytes were given", f.name, size);
	CHECK(thrown == f.throws, "%s of %zu bytes: %s", f.name, size,
	      thrown ? "threw" : "did not throw");
}

int handler_calls;

// An alignment that is no power of two is refused at once: no handler can help.
void test_impossible_alignments(const form &f)
{
	handler_calls = 0;
	std::set_new_handler([] {
		handler_calls++;
		std::set_new_handler(nullptr);
	});
	for (std::size_t alignment : { std::size_t{ 0 }, std::size_t{ 3 }, std::size_t{ 24 },
				       std::size_t{ 4095 }, SIZE_MAX })
		for (std::size_t size : { 0, 8, 5000, 100000 })
			expect_refusal(f, size, alignment);
	std::set_new_handler(nullptr);
	CHECK(handler_calls == 0, "%s: the new-handler was called", f.name);
}

struct gave_up : std::bad_alloc {
};

void test_new_handler(const form &f)
{
	// A handler that returns is called again, until it takes itself out.
	handler_calls = 0;
	std::set_new_handler([] {
		if (++handler_calls == 3)
			std::set_new_handler(nullptr);
	});
	expect_refusal(f, SIZE_MAX / 4);
	CHECK(handler_calls == 3, "%s: the new-handler was called %d times", f.name,
	      handler_calls);

	// One that throws is passed on, or turned into nullptr by the nothrow forms.
	std::set_new_handler([] { throw gave_up(); });
	bool thrown = false;
	try {
		void *p = f.get(unknown(SIZE_MAX / 4), align_val_t{ 128 });
		CHECK(!p, "%s: %p", f.name, p);
	} catch (const gave_up &) {
		thrown = true;
	}
	std::set_new_handler(nullptr);
	CHECK(thrown == f.throws, "%s with a handler that throws", f.name);
}

void *ballast;

// The size of writable private memory, which RLIMIT_DATA limits.
rlim_t data_size()
{
	long pages = 0;
	std::FILE *f = std::fopen("/proc/self/statm", "re");
	CHECK(f && std::fscanf(f, "%*d %*d %*d %*d %*d %ld", &pages) == 1, "/proc/self/statm");
	std::fclose(f);
	return static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE));
}

// Memory that the handler lets go must serve the request that failed.
void test_handler_that_frees()
{
	rlimit unlimited, limit;
	getrlimit(RLIMIT_DATA, &unlimited);
	limit = unlimited;
	limit.rlim_cur = data_size() + 400 * mib;

	handler_calls = 0;
	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
	ballast = ::operator new(unknown(250 * mib));
	std::set_new_handler([] {
		if (++handler_calls > 1)
			std::set_new_handler(nullptr);
		::operator delete(ballast);
		ballast = nullptr;
	});
	void *p = ::operator new(unknown(240 * mib));
	// Debugged blocks leave quarantine late, so what fits beside the ballast varies.
	for (const std::size_t more : { 320 * mib, 380 * mib })
		if (!handler_calls) {
			::operator delete(p);
			p = ::operator new(unknown(more));
		}
	std::set_new_handler(nullptr);
	setrlimit(RLIMIT_DATA, &unlimited);
	CHECK(p && handler_calls == 1 && !ballast, "handler called %d times", handler_calls);
	::operator delete(p);
}

struct alignas(256) wide {
	static int alive;
	char bytes[300];
	wide()
	{
		alive++;
	}
	~wide()
	{
		alive--;
	}
};
int wide::alive;

void test_expressions()
{
	for (std::size_t n = 0; n < 200; n++) {
		auto array = std::make_unique<wide[]>(unknown(n));
		auto strings = std::make_unique<std::string[]>(unknown(n));
		std::shared_ptr<wide> shared = std::make_shared<wide>();
		CHECK(wide::alive == static_cast<int>(n) + 1, "%d objects", wide::alive);
		CHECK(reinterpret_cast<std::uintptr_t>(array.get()) % alignof(wide) == 0,
		      "array at %p", static_cast<void *>(array.get()));
		CHECK(reinterpret_cast<std::uintptr_t>(shared.get()) % alignof(wide) == 0,
		      "object at %p", static_cast<void *>(shared.get()));
	}
	CHECK(wide::alive == 0, "%d objects", wide::alive);

	bool thrown = false;
	try {
		delete[] new wide[unknown(PTRDIFF_MAX / sizeof(wide))];
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	CHECK(thrown, "an array of impossible length");
}

// Strings, vectors and maps grow and shrink; the result depends on every element.
std::uint64_t churn(std::pmr::memory_resource &resource, std::uint64_t seed)
{
	std::pmr::map<std::uint64_t, std::pmr::string> words(&resource);
	std::pmr::vector<std::pmr::vector<std::uint64_t>> rows(&resource);
	std::unordered_map<std::uint64_t, std::string> plain;
	std::uint64_t rng = seed, sum = 0;

	for (int i = 0; i < 20000; i++) {
		const std::uint64_t key = rng_below(&rng, 500);
		words[key].append(rng_size(&rng, 256), static_cast<char>('a' + key % 26));
		plain[key % 97] += std::to_string(key);
		if (words[key].size() > 3000)
			words.erase(key);
		rows.resize(i % 300);
		if (!rows.empty())
			rows[key % rows.size()].insert(rows[key % rows.size()].end(), key, sum);
		sum += plain[key % 97].size();
	}
	for (const auto &[key, word] : words)
		sum = sum * 31 + key + word.size();
	for (const auto &row : rows)
		for (std::uint64_t value : row)
			sum = sum * 31 + value;
	return sum;
}

void test_churn()
{
	std::pmr::unsynchronized_pool_resource own_pool;
	std::pmr::monotonic_buffer_resource growing;
	std::pmr::synchronized_pool_resource shared_pool;
	std::pmr::memory_resource *plain = std::pmr::new_delete_resource();

	const std::uint64_t expected = churn(*plain, 42);
	CHECK(churn(own_pool, 42) == expected, "unsynchronized_pool_resource");
	CHECK(churn(growing, 42) == expected, "monotonic_buffer_resource");
	std::vector<std::thread> threads;
	for (int i = 0; i < 6; i++)
		threads.emplace_back([&, i] {
			CHECK(churn(i % 2 ? *plain : shared_pool, 42) == expected, "thread %d",
			      i);
		});
	for (std::thread &thread : threads)
		thread.join();
	std::printf("ok: containers, sum %llx\n", static_cast<unsigned long long>(expected));
}

} // namespace

int main()
{
	setvbuf(stdout, nullptr, _IONBF, 0);
	// libstdc++ 12 itself rounds sizes up to the alignment and so wraps around to 0.
#ifdef OPERATORS_OF_LIBSTDCXX
	const bool wraps_around = true;
#else
	const bool wraps_around = !std::getenv("LD_PRELOAD");
#endif
	for (const form &f : forms) {
		for (std::size_t alignment = 1; alignment <= 65536; alignment *= 4)
			check_served(f, alignment);
		for (std::size_t i = 0; i < 200; i++) {
			if (!f.aligned || !wraps_around)
				expect_refusal(f, SIZE_MAX - i);
			expect_refusal(f, static_cast<std::size_t>(PTRDIFF_MAX) + 1 + i);
			expect_refusal(f, (i + 1) << 50);
		}
		if (f.aligned)
			test_impossible_alignments(f);
		test_new_handler(f);
		std::printf("ok: %s\n", f.name);
	}
	test_handler_that_frees();
	std::printf("ok: a new-handler that frees memory\n");
	test_expressions();
	std::printf("ok: new-expressions\n");
	test_churn();
	return 0;
}
