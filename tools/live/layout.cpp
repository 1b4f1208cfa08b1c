/* SPDX-License-Identifier: MIT */
#include "live/layout.h"

#include <algorithm>
#include <cstring>
#include <sys/sysinfo.h>

#include "live/printable.h"

namespace live
{

namespace
{

/* What the library's src/live/description.h declares, as format 1 has it. */
constexpr uint32_t known_format = 1;
constexpr char known_magic[] = "ukmemlay";
enum kind : uint32_t { STRUCT, FIELD, CONSTANT };

struct live_entry {
	char name[44];
	uint32_t kind, size, count;
	uint64_t value;
};

struct live_symbol {
	char name[24];
	address at;
};

struct live_layout {
	char magic[8];
	uint32_t format, size;
	char version[16];
	address entries, symbols;
	uint32_t nr_entries, entry_size, nr_symbols, symbol_size;
};

constexpr char bitmap[] = "page.bitmap"; /* readers take its words as they are */
constexpr char not_loaded[] = "its library is not loaded completely yet";

/* Bounds of what a description can sensibly say. */
constexpr uint32_t most_entries = 1 << 14, most_entry_bytes = 1 << 10;
constexpr uint64_t most_structure_bytes = 1 << 20;
/* And of what a reader has in memory of it: so many bytes, or this part of the machine's. */
constexpr uint64_t least_room = 256 << 20, room_part = 16;

/* A string that may fill its array. */
template <size_t n> std::string text_of(const char (&s)[n])
{
	return std::string(s, strnlen(s, n));
}

std::string of_structure(const std::string &field)
{
	return field.substr(0, field.find('.'));
}

/* Copies @n records of @size bytes; later formats may have appended members to T. */
template <typename T>
std::vector<T> read_table(process_memory &memory, address at, uint32_t n, uint32_t size)
{
	std::vector<T> table;

	if (n > most_entries || size < sizeof(T) || size > most_entry_bytes)
		throw error(reason::unknown, "its library's description is damaged");

	std::vector<char> bytes(static_cast<size_t>(n) * size);

	/* Before the loader has relocated the library, it leads to nowhere. */
	if (!memory.read(at, bytes.data(), bytes.size()))
		throw error(reason::not_ready, not_loaded);
	table.resize(n);
	for (size_t i = 0; i < n; i++)
		memcpy(&table[i], &bytes[i * size], sizeof(T));
	return table;
}

} // namespace

layout::layout(process_memory &memory, const library &lib)
{
	live_layout root = {};

	/* A program that is just being executed is mapped in parts. */
	if (!memory.read(lib.layout, &root, offsetof(live_layout, entries)))
		throw error(reason::not_ready, not_loaded);
	/* The first members are the same in all formats. */
	if (memcmp(root.magic, known_magic, sizeof(root.magic)) != 0)
		throw error(reason::unknown, "its library's note leads to no description");
	version = printable(text_of(root.version));
	if (root.format != known_format || lib.format != known_format)
		throw error(reason::unknown,
			    "its library, ukmem " + version + ", describes itself in format " +
				    std::to_string(root.format) +
				    "; this command, " UKMEM_VERSION ", knows format " +
				    std::to_string(known_format) +
				    ": use the command that came with the library");
	if (root.size < sizeof(root) || !memory.get(lib.layout, root))
		throw error(reason::unknown, "its library's description is damaged");
	read_entries(memory, root.entries, root.nr_entries, root.entry_size);
	read_symbols(memory, root.symbols, root.nr_symbols, root.symbol_size);
	check();
}

void layout::read_entries(process_memory &memory, address at, uint32_t n, uint32_t size)
{
	for (const auto &e : read_table<live_entry>(memory, at, n, size))
		entries[printable(text_of(e.name))] = {
			e.kind, { static_cast<uint32_t>(e.value), e.size, e.count }, e.value
		};
}

void layout::read_symbols(process_memory &memory, address at, uint32_t n, uint32_t size)
{
	for (const auto &s : read_table<live_symbol>(memory, at, n, size))
		symbols[text_of(s.name)] = s.at;
}

/* Fields lie inside their structures, so that records need not ask. */
void layout::check() const
{
	for (const auto &[name, e] : entries) {
		const auto structure = entries.find(of_structure(name));
		const uint64_t end = e.value + static_cast<uint64_t>(e.f.size) * e.f.count;

		if (e.kind == STRUCT && (!e.f.size || e.f.size > most_structure_bytes))
			throw error(reason::unknown, "ukmem " + version +
							     " describes no sensible size of " +
							     name);
		if (e.kind == FIELD &&
		    (e.value > most_structure_bytes || end > most_structure_bytes ||
		     (structure != entries.end() && end > structure->second.f.size)))
			throw error(reason::unknown, "ukmem " + version + " describes " + name +
							     " outside of its structure");
		if (e.kind == FIELD && name == bitmap &&
		    (e.f.size != sizeof(uint64_t) || !e.f.count))
			throw error(reason::unknown,
				    "ukmem " + version + " describes no words of " + name);
	}
}

void layout::missing(const std::string &name) const
{
	throw error(reason::unknown, "its library, ukmem " + version + ", does not describe '" +
					     name + "': use the command that came with it");
}

const layout::entry &layout::find(const std::string &name, uint32_t kind) const
{
	const auto found = entries.find(name);

	if (found == entries.end() || found->second.kind != kind)
		missing(name);
	return found->second;
}

uint64_t layout::size_of(const std::string &structure) const
{
	return find(structure, STRUCT).f.size;
}

const layout::field &layout::field_of(const std::string &name) const
{
	return find(name, FIELD).f;
}

uint64_t layout::constant(const std::string &name) const
{
	return find(name, CONSTANT).value;
}

unsigned int layout::shift(const std::string &name) const
{
	const uint64_t n = constant(name);

	if (n >= 64)
		missing(name);
	return static_cast<unsigned int>(n);
}

address layout::symbol(const std::string &name) const
{
	const auto found = symbols.find(name);

	if (found == symbols.end())
		missing(name);
	return found->second;
}

std::vector<std::string> layout::names(const std::string &prefix) const
{
	const auto is_meant = [&](const auto &named) {
		return named.second.kind == CONSTANT &&
		       !named.first.compare(0, prefix.size(), prefix);
	};
	const auto n = std::count_if(entries.begin(), entries.end(), is_meant);
	std::vector<std::string> all(static_cast<size_t>(n));

	for (const auto &named : entries) {
		if (!is_meant(named))
			continue;
		/* Their values count them. */
		if (named.second.value >= all.size())
			missing(named.first);
		all[named.second.value] = named.first.substr(prefix.size());
	}
	return all;
}

uint64_t most_room()
{
	static const uint64_t most = [] {
		struct sysinfo machine = {};
		const bool known = !sysinfo(&machine);

		return std::max<uint64_t>(least_room, known ? uint64_t{ machine.totalram } *
								      machine.mem_unit /
								      room_part
							    : 0);
	}();

	return most;
}

size_t room_for(uint64_t n, uint64_t size)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > most_room())
		throw error(reason::unknown, "its library describes more than there can be");
	return bytes;
}

bool load_number(const unsigned char *p, size_t size, uint64_t &value)
{
	value = 0;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return false;
	memcpy(&value, p,
	       size); /* little-endian, as are all machines that the library is for */
	return true;
}

uint64_t table::get(size_t i, const layout::field &f, size_t index) const
{
	const size_t at = i * size + f.offset + index * f.size;
	uint64_t value = 0;

	if (at + f.size > bytes.size() || !load_number(&bytes[at], f.size, value))
		throw error(reason::unknown, "its library describes no numbers where they were "
					     "expected");
	return value;
}

record::record(const layout &l, const std::string &structure)
    : lay(&l), prefix(structure + "."), bytes(l.size_of(structure))
{
}

live::piece record::piece(address from)
{
	where = from;
	return { from, bytes.data(), bytes.size() };
}

bool record::read(process_memory &memory, address from)
{
	return memory.read({ piece(from) });
}

const layout::field &record::find(const std::string &field) const
{
	return lay->field_of(prefix + field);
}

uint64_t record::get(const std::string &field, size_t index) const
{
	const layout::field &f = find(field);
	uint64_t value = 0;

	if (index >= f.count)
		return 0;

	if (!load_number(&bytes[f.offset + index * f.size], f.size, value))
		throw error(reason::unknown, "its library, ukmem " + lay->version +
						     ", describes no number '" + prefix +
						     field + "'");
	return value;
}

size_t record::count(const std::string &field) const
{
	return find(field).count;
}

std::string record::text(const std::string &field) const
{
	const layout::field &f = find(field);
	const char *p = reinterpret_cast<const char *>(bytes.data() + f.offset);

	return std::string(p, strnlen(p, static_cast<size_t>(f.size) * f.count));
}

address record::at(const std::string &field) const
{
	return where + find(field).offset;
}

} // namespace live
