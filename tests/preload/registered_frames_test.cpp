/* SPDX-License-Identifier: MIT */
/*
 * A program that registers unwind tables for code which it makes at run time, as a just-in-time
 * compiler does, and then throws an exception. The compiler's unwinder sorts the tables at that
 * moment, and allocates for it with a lock held, for which it would wait if it was asked for
 * the stack of that request.
 */
#include <alloca.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "preload_test.h"

extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);

namespace
{

constexpr uint32_t functions = 20000, function_bytes = 16;

struct tables {
	std::vector<unsigned char> bytes;

	template <class T> void add(const T &value)
	{
		const auto *p = reinterpret_cast<const unsigned char *>(&value);

		bytes.insert(bytes.end(), p, p + sizeof(value));
	}

	/* Adds an entry with its length before it. */
	void add_entry(const tables &entry)
	{
		add(static_cast<uint32_t>(entry.bytes.size()));
		bytes.insert(bytes.end(), entry.bytes.begin(), entry.bytes.end());
	}
};

/* Tables of functions that lie at @code, one behind the other. */
tables tables_of(const unsigned char *code)
{
	/* Version 1; "zR": addresses as they are (0); the cfa is in register 7; filled up with
	 * DW_CFA_nop. */
	const unsigned char common[] = { 1, 'z',  'R', 0, 1, 0x78, 16, 1,
					 0, 0x0c, 7,   8, 0, 0,	   0,  0 };
	tables all, first;

	first.add(uint32_t{ 0 });
	first.add(common);
	all.add_entry(first);
	for (uint32_t i = 0; i < functions; i++) {
		tables entry;

		entry.add(static_cast<uint32_t>(all.bytes.size() + sizeof(uint32_t)));
		entry.add(reinterpret_cast<uint64_t>(code) + uint64_t{ i } * function_bytes);
		entry.add(uint64_t{ function_bytes });
		entry.add(uint32_t{ 0 });
		all.add_entry(entry);
	}
	all.add(uint32_t{ 0 });
	return all;
}

/* A profile asks the compiler's unwinder for a stack with this frame: it is realigned, and the
 * library's own walk does not follow such. */
__attribute__((noinline)) int catch_one(int n)
{
	alignas(64) volatile char aligned[64];
	auto *more = static_cast<volatile char *>(alloca(static_cast<size_t>(n)));

	aligned[n] = more[0] = 1;
	try {
		throw n;
	} catch (int caught) {
		return caught + aligned[n] - 1;
	}
}

} // namespace

int main()
{
	std::vector<unsigned char> code(static_cast<size_t>(functions) * function_bytes);
	tables t = tables_of(code.data());

	__register_frame(t.bytes.data());
	CHECK(catch_one(7) == 7, "the exception");
	__deregister_frame(t.bytes.data());
	verify_library();
	puts("caught");
}
