/* SPDX-License-Identifier: MIT */
/*
 * Bytes as the memory of a process, at the address BASE, where its library describes itself
 * (tools/live/layout.h). Whatever it says, it is refused, or can be used: sizes, fields,
 * constants, copies of structures.
 */
#include <cstring>

#include "live/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace
{

constexpr live::address kBase = 0x1000;

class bytes : public live::process_memory
{
      public:
	bytes(const uint8_t *data, size_t size) : data(data), size(size)
	{
	}

	using process_memory::read;

	bool read(const std::vector<live::piece> &pieces) override
	{
		for (const live::piece &p : pieces) {
			if (p.from < kBase || p.from - kBase > size ||
			    size - (p.from - kBase) < p.size)
				return false;
			if (p.size)
				memcpy(p.to, data + (p.from - kBase), p.size);
		}
		return true;
	}

	std::vector<live::mapping> mappings() override
	{
		return {};
	}

	uint64_t resident(live::address, uint64_t) override
	{
		return 0;
	}

	void check_alive() override
	{
	}

      private:
	const uint8_t *data;
	size_t size;
};

/* Ends what a description does not have. */
template <typename F> void attempt(F f)
{
	try {
		f();
	} catch (const live::error &) {
	}
}

void use(bytes &memory, const live::layout &l)
{
	attempt([&] { (void)l.names("c."); });
	attempt([&] { (void)l.shift("c.0"); });
	attempt([&] { (void)l.symbol("v"); });
	attempt([&] {
		live::record r(l, "s");

		(void)r.read(memory, kBase);
		attempt([&] { (void)r.text("f"); });
		attempt([&] {
			for (size_t i = 0; i < r.count("f") && i < 64; i++)
				(void)r.get("f", i);
			(void)r.get("f", r.count("f"));
		});
	});
	attempt([&] {
		live::table t(l, "s", 3);

		(void)memory.read({ t.piece(0, kBase), t.piece(2, kBase + 1) });
		for (size_t i = 0; i < 3; i++)
			attempt([&] { (void)t.get(i, l.field_of("s.f")); });
		for (size_t i = 0; i < 64; i++)
			attempt([&] { (void)t.get(2, l.field_of("s.f"), i); });
	});
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bytes memory(data, size);
	live::library lib = {};

	lib.layout = kBase;
	lib.format = 1;
	attempt([&] { use(memory, live::layout(memory, lib)); });
	return 0;
}
