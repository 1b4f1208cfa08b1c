/* SPDX-License-Identifier: MIT */
/*
 * Where a process's library keeps what, by the description that it carries
 * (src/live/description.h). Whatever the description does not have is an error that names it:
 * nothing is guessed.
 */
#ifndef TOOLS_LIVE_LAYOUT_H
#define TOOLS_LIVE_LAYOUT_H

#include <string>
#include <unordered_map>
#include <vector>

#include "live/library.h"
#include "live/memory.h"

namespace live
{

class layout
{
      public:
	/** Throws error: forbidden, gone, not_ready, unknown. */
	layout(process_memory &memory, const library &lib);

	struct field {
		uint32_t offset, size,
			count; /**< size of one element; count 0: no fixed number */
	};

	/** All of these throw error: unknown. @name as in src/live/description.c. */
	uint64_t size_of(const std::string &structure) const;
	const field &field_of(const std::string &name) const;
	uint64_t constant(const std::string &name) const;
	/** A constant that 64-bit numbers are shifted by. */
	unsigned int shift(const std::string &name) const;
	/** The address of a variable; 0: the program has not linked it in. */
	address symbol(const std::string &name) const;
	/** The names that begin with @prefix, without it, by their values. */
	std::vector<std::string> names(const std::string &prefix) const;

	std::string version; /**< the library's */

      private:
	struct entry {
		uint32_t kind;
		field f;
		uint64_t value;
	};

	[[noreturn]] void missing(const std::string &name) const;
	const entry &find(const std::string &name, uint32_t kind) const;
	void read_entries(process_memory &memory, address at, uint32_t n, uint32_t size);
	void read_symbols(process_memory &memory, address at, uint32_t n, uint32_t size);
	void check() const;

	std::unordered_map<std::string, entry> entries;
	std::unordered_map<std::string, address> symbols;
};

/** A number of 1, 2, 4 or 8 bytes; false: another size. */
bool load_number(const unsigned char *p, size_t size, uint64_t &value);

/** Linux has no more CPUs. */
constexpr uint64_t most_cpus = 8192;

/** Bytes that a reader may have in memory of what a process describes: a part of the machine's.
 */
uint64_t most_room();
/** Result: @n * @size bytes. Throws error: unknown, if a reader must not have so many at once:
 * the process says how many there are. */
size_t room_for(uint64_t n, uint64_t size);
/** @n zeros. Throws as room_for(). */
template <typename T> std::vector<T> zeros(uint64_t n)
{
	return std::vector<T>(room_for(n, sizeof(T)) / sizeof(T));
}

/** Copies of @n structures of one type, for reads of many at once. */
class table
{
      public:
	/** Throws error: unknown. */
	table(const layout &l, const std::string &structure, size_t n)
	    : size(l.size_of(structure)), bytes(room_for(n, size))
	{
	}

	/** The piece to be read for copy @i, which lies at @from. */
	live::piece piece(size_t i, address from)
	{
		return { from, &bytes[i * size], size };
	}

	/** The value of a field of copy @i, or of an element of an array. */
	uint64_t get(size_t i, const layout::field &f, size_t index = 0) const;

      private:
	size_t size;
	std::vector<unsigned char> bytes;
};

/** A copy of one structure of the process. */
class record
{
      public:
	/** @structure: its name in the layout. Throws error: unknown. */
	record(const layout &l, const std::string &structure);

	/** Copies the structure at @from. False: it is not mapped. */
	bool read(process_memory &memory, address from);
	/** The piece to be read, for a read of several. */
	live::piece piece(address from);

	/** The value of a field, or of an element; 0 beyond the last one. Throws: unknown. */
	uint64_t get(const std::string &field, size_t index = 0) const;
	/** The number of elements of an array. */
	size_t count(const std::string &field) const;
	/** An array of characters. */
	std::string text(const std::string &field) const;
	/** The address of a field in the process. */
	address at(const std::string &field) const;

	live::address where = 0; /**< of the structure in the process */

      private:
	const layout::field &find(const std::string &field) const;

	const layout *lay;
	std::string prefix;
	std::vector<unsigned char> bytes;
};

} // namespace live

#endif
