// SPDX-License-Identifier: MIT
//
// A program with operators of its own. C++ defines the other forms by those that it has, so the
// other forms must call them, also where they are the library's.
//
//	replaced_test PLUGIN
//
// Built with REPLACES_ARRAYS the program has new[] and delete[], else new and delete, and those
// with an alignment. Its blocks begin with a mark, which its delete looks at. While a thread
// opens PLUGIN it holds the dynamic linker's lock, for which no form may wait.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <dlfcn.h>
#include <unistd.h>

#include "preload_test.h"

namespace
{

using std::align_val_t;
using std::nothrow;

constexpr std::uint64_t mark = 0x1234abcd5678;
constexpr std::size_t head = 64, huge = std::size_t{ 1 } << 60;
constexpr align_val_t alignment{ head };
std::atomic<unsigned int> gets, gives;

void *get(std::size_t size)
{
	void *block = size < huge
			      ? std::aligned_alloc(head, (size + 2 * head - 1) / head * head)
			      : nullptr;
	if (!block)
		throw std::bad_alloc();
	gets++;
	std::memcpy(block, &mark, sizeof(mark));
	return static_cast<char *>(block) + head;
}

void give(void *p)
{
	if (!p)
		return;
	void *block = static_cast<char *>(p) - head;
	CHECK(!std::memcmp(block, &mark, sizeof(mark)), "%p is not of the program's new", p);
	std::memset(block, 0, sizeof(mark));
	gives++;
	std::free(block);
}

} // namespace

// The sized forms are to be the library's.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

#ifdef REPLACES_ARRAYS
#define REPLACED(name) name[]
#else
#define REPLACED(name) name
#endif

void *operator REPLACED(new)(std::size_t size)
{
	return get(size);
}

void operator REPLACED(delete)(void *p) noexcept
{
	give(p);
}

void *operator REPLACED(new)(std::size_t size, align_val_t)
{
	return get(size);
}

void operator REPLACED(delete)(void *p, align_val_t) noexcept
{
	give(p);
}

namespace
{

struct form {
	const char *name;
	void *(*get)(std::size_t size);
	void (*give)(void *p);
};

const form forms[] = {
	{ "new[], delete[]", [](std::size_t n) { return ::operator new[](n); },
	  [](void *p) { ::operator delete[](p); } },
	{ "nothrow new[], delete[]", [](std::size_t n) { return ::operator new[](n, nothrow); },
	  [](void *p) { ::operator delete[](p); } },
	{ "new[], sized delete[]", [](std::size_t n) { return ::operator new[](n); },
	  [](void *p) { ::operator delete[](p, 100); } },
	{ "new[], nothrow delete[]", [](std::size_t n) { return ::operator new[](n); },
	  [](void *p) { ::operator delete[](p, nothrow); } },
	{ "aligned new[], delete[]",
	  [](std::size_t n) { return ::operator new[](n, alignment); },
	  [](void *p) { ::operator delete[](p, alignment); } },
	{ "aligned nothrow new[], delete[]",
	  [](std::size_t n) { return ::operator new[](n, alignment, nothrow); },
	  [](void *p) { ::operator delete[](p, alignment); } },
	{ "aligned new[], sized delete[]",
	  [](std::size_t n) { return ::operator new[](n, alignment); },
	  [](void *p) { ::operator delete[](p, 100, alignment); } },
	{ "aligned new[], nothrow delete[]",
	  [](std::size_t n) { return ::operator new[](n, alignment); },
	  [](void *p) { ::operator delete[](p, alignment, nothrow); } },
#ifndef REPLACES_ARRAYS
	{ "new, delete", [](std::size_t n) { return ::operator new(n); },
	  [](void *p) { ::operator delete(p); } },
	{ "nothrow new, delete", [](std::size_t n) { return ::operator new(n, nothrow); },
	  [](void *p) { ::operator delete(p); } },
	{ "new, sized delete", [](std::size_t n) { return ::operator new(n); },
	  [](void *p) { ::operator delete(p, 100); } },
	{ "new, nothrow delete", [](std::size_t n) { return ::operator new(n); },
	  [](void *p) { ::operator delete(p, nothrow); } },
	{ "aligned new, delete", [](std::size_t n) { return ::operator new(n, alignment); },
	  [](void *p) { ::operator delete(p, alignment); } },
	{ "aligned nothrow new, delete",
	  [](std::size_t n) { return ::operator new(n, alignment, nothrow); },
	  [](void *p) { ::operator delete(p, alignment); } },
	{ "aligned new, sized delete",
	  [](std::size_t n) { return ::operator new(n, alignment); },
	  [](void *p) { ::operator delete(p, 100, alignment); } },
	{ "aligned new, nothrow delete",
	  [](std::size_t n) { return ::operator new(n, alignment); },
	  [](void *p) { ::operator delete(p, alignment, nothrow); } },
#endif
};

// Whether the program's operator refused by an exception that left the form.
bool throws(const form &f)
{
	try {
		CHECK(!f.get(huge), "%s: %zu bytes were given", f.name, huge);
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

std::atomic<bool> plugin_waits, plugin_may_go;

void call_each_form_while_a_plugin_starts(const char *path)
{
	std::thread opener(
		[=] { CHECK(dlopen(path, RTLD_NOW | RTLD_LOCAL), "dlopen: %s", dlerror()); });

	alarm(60); // if a form waits for the opener
	while (!plugin_waits)
		std::this_thread::yield();
	for (const form &f : forms)
		f.give(f.get(100));
	plugin_may_go = true;
	opener.join();
	alarm(0);
}

} // namespace

// The constructor of the plugin calls this.
extern "C" __attribute__((visibility("default"))) void plugin_starts()
{
	plugin_waits = true;
	while (!plugin_may_go)
		std::this_thread::yield();
}

int main(int argc, char **argv)
{
	CHECK(argc == 2, "usage: %s PLUGIN", argv[0]);
	call_each_form_while_a_plugin_starts(argv[1]);
	for (const form &f : forms) {
		gets = gives = 0;
		void *p = f.get(100);
		CHECK(gets == 1, "%s: not by the program's new", f.name);
		f.give(p);
		CHECK(gives == 1, "%s: not by the program's delete", f.name);
		CHECK(throws(f) == !std::strstr(f.name, "nothrow new"), "%s: bad_alloc",
		      f.name);
	}
	std::puts("the program's operators were called");
	return 0;
}
