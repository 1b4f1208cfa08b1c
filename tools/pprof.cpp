/* SPDX-License-Identifier: MIT */
/*
 * profile.proto is a message of numbers, strings and six small messages, and its form is fixed
 * for ever. Its encoding takes the two functions below; the library for it would add a compiler
 * to the build and some megabytes to what the tool needs.
 */
#include "pprof.h"

#include <cmath>
#include <ctime>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include <zlib.h>

namespace
{

/* An encoded message. */
class message
{
      public:
	message &number(unsigned int field, uint64_t value)
	{
		varint(field << 3);
		varint(value);
		return *this;
	}
	message &text(unsigned int field, const std::string &value)
	{
		varint(field << 3 | 2);
		varint(value.size());
		bytes += value;
		return *this;
	}
	message &inside(unsigned int field, const message &m)
	{
		return text(field, m.bytes);
	}
	/* A number of a repeated field, packed. */
	void varint(uint64_t value)
	{
		for (; value >= 0x80; value >>= 7)
			bytes += static_cast<char>(value | 0x80);
		bytes += static_cast<char>(value);
	}

	std::string bytes;
};

/* Fields of profile.proto. */
enum {
	SAMPLE_TYPE = 1,
	SAMPLE,
	MAPPING,
	LOCATION,
	FUNCTION,
	STRING,
	TIME = 9,
	PERIOD_TYPE = 11,
	PERIOD,
	DEFAULT_TYPE = 14
};

/* Fields of a mapping: pprof need not look for names itself. */
enum { HAS_FUNCTIONS = 7, HAS_FILES, HAS_LINES };

class writer
{
      public:
	writer(const live::heap_profile &profile, symbols &s) : p(profile), names(s)
	{
		string("");
	}

	std::string write()
	{
		for (const char *type :
		     { "alloc_objects", "alloc_space", "inuse_objects", "inuse_space" })
			out.inside(SAMPLE_TYPE, value_type(type));
		for (const auto &[stack, counts] : p.stacks)
			add(stack, counts);
		for (size_t i = 0; i < p.maps.size(); i++)
			add_mapping(i);
		out.number(TIME, static_cast<uint64_t>(std::time(nullptr)) * 1000000000);
		out.inside(PERIOD_TYPE, value_type("space")).number(PERIOD, p.interval);
		out.number(DEFAULT_TYPE, string("inuse_space"));
		for (const std::string &s : strings)
			out.text(STRING, s);
		return out.bytes;
	}

      private:
	uint64_t string(const std::string &s)
	{
		const auto [at, is_new] = string_index.emplace(s, strings.size());

		if (is_new)
			strings.push_back(s);
		return at->second;
	}

	message value_type(const std::string &type)
	{
		const bool bytes = type.find("space") != std::string::npos;

		return message()
			.number(1, string(type))
			.number(2, string(bytes ? "bytes" : "count"));
	}

	uint64_t function(const std::string &name, const std::string &file)
	{
		const auto [at, is_new] =
			functions.emplace(std::make_pair(name, file), functions.size() + 1);

		if (is_new)
			out.inside(FUNCTION, message()
						     .number(1, at->second)
						     .number(2, string(name))
						     .number(3, string(name))
						     .number(4, string(file)));
		return at->second;
	}

	/* Return addresses belong to the call before them. */
	uint64_t location(live::address pc)
	{
		const auto [at, is_new] = locations.emplace(pc, locations.size() + 1);

		if (!is_new)
			return at->second;

		const live::mapping *m = names.find(pc - 1);
		const module_lines::place place = names.line(pc - 1);
		const message line =
			message()
				.number(1, function(names.name(pc - 1), place.file))
				.number(2, static_cast<uint64_t>(place.line));

		out.inside(
			LOCATION,
			message()
				.number(1, at->second)
				.number(2, m ? static_cast<uint64_t>(m - p.maps.data() + 1) : 0)
				.number(3, pc - 1)
				.inside(4, line));
		return at->second;
	}

	void add(const std::vector<live::address> &stack, const live::profile_counts &c)
	{
		message ids, values;

		for (const live::address pc : stack)
			ids.varint(location(pc));
		for (const double value : { c.allocs, c.alloc_bytes, c.live, c.live_bytes })
			values.varint(static_cast<uint64_t>(std::llround(value)));
		out.inside(SAMPLE, message().inside(1, ids).inside(2, values));
	}

	void add_mapping(size_t i)
	{
		const live::mapping &m = p.maps[i];

		out.inside(MAPPING, message()
					    .number(1, i + 1)
					    .number(2, m.start)
					    .number(3, m.end)
					    .number(4, m.offset)
					    .number(5, string(m.file))
					    .number(HAS_FUNCTIONS, 1)
					    .number(HAS_FILES, 1)
					    .number(HAS_LINES, 1));
	}

	const live::heap_profile &p;
	symbols &names;
	message out;
	std::vector<std::string> strings;
	std::unordered_map<std::string, uint64_t> string_index;
	std::map<std::pair<std::string, std::string>, uint64_t> functions; /* name, file */
	std::unordered_map<live::address, uint64_t> locations;
};

std::string compress(const std::string &bytes)
{
	constexpr int gzip = 15 + 16, memory = 8;
	z_stream z = {};
	std::string out;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip, memory,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		throw std::runtime_error("zlib: cannot start");
	out.resize(deflateBound(&z, bytes.size()));
	z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
	z.avail_in = static_cast<uInt>(bytes.size());
	z.next_out = reinterpret_cast<Bytef *>(out.data());
	z.avail_out = static_cast<uInt>(out.size());

	const int result = deflate(&z, Z_FINISH);

	out.resize(z.total_out);
	deflateEnd(&z);
	if (result != Z_STREAM_END)
		throw std::runtime_error("zlib: cannot compress the profile");
	return out;
}

} // namespace

std::string pprof(const live::heap_profile &p, symbols &names)
{
	return compress(writer(p, names).write());
}
