/* SPDX-License-Identifier: MIT */
#include "symbols.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <cxxabi.h>

#include "live/descriptor.h"
#include "live/layout.h"
#include "live/printable.h"

/* False, too, if one of them is not known. */
static bool are_one_file(const std::string &a, const std::string &b)
{
	struct stat of_a = {}, of_b = {};

	return !stat(a.c_str(), &of_a) && !stat(b.c_str(), &of_b) &&
	       of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* Whether a name leads the process to the file that it leads this one to. */
static bool sees_same_files(pid_t pid)
{
	const std::string of_process = "/proc/" + std::to_string(pid);

	return are_one_file(of_process + "/ns/mnt", "/proc/self/ns/mnt") &&
	       are_one_file(of_process + "/root", "/proc/self/root");
}

symbols::symbols(const std::vector<live::mapping> &mappings, pid_t of)
    : maps(mappings), pid(of), same_files(sees_same_files(of)), room(live::most_room())
{
}

/* By which path the process's own file can be opened here. Its name is preferred, because
 * separate debug information may lie beside it. */
std::string symbols::path_of(const live::mapping &m) const
{
	const std::string of_process = "/proc/" + std::to_string(pid);
	const std::string there = of_process + "/root" + m.file;
	struct stat seen = {};
	char range[40];

	if (!stat(there.c_str(), &seen))
		return are_one_file(m.file, there) ? m.file : there;
	/* No name leads to a file that was deleted; to what is mapped of it root alone gets. */
	std::snprintf(range, sizeof(range), "%llx-%llx",
		      static_cast<unsigned long long>(m.start),
		      static_cast<unsigned long long>(m.end));

	std::string mapped = of_process + "/map_files/" + range;

	if (!stat(mapped.c_str(), &seen))
		return mapped;
	/* Perhaps the process has ended meanwhile. */
	return same_files ? m.file : "";
}

const live::mapping *symbols::find(live::address at) const
{
	for (const live::mapping &m : maps)
		if (at >= m.start && at < m.end)
			return &m;
	return nullptr;
}

/* A file that the process chose: whatever it says, @room bounds what is read of it. */
class symbols::image
{
      public:
	image(const std::string &path, uint64_t &bytes_left)
	    : room(bytes_left), in(opened(path))
	{
	}

	/* A part of it. False: the file does not have it, or it has no room. */
	bool load(uint64_t at, uint64_t size, void *to) const
	{
		for (uint64_t done = 0; done < size;) {
			const ssize_t n = pread(in.number, static_cast<char *>(to) + done,
						size - done, static_cast<off_t>(at + done));

			if (n > 0)
				done += static_cast<uint64_t>(n);
			else if (!n || errno != EINTR)
				return false;
		}
		return true;
	}
	template <typename T> bool load(uint64_t at, T &value) const
	{
		return load(at, sizeof(value), &value);
	}
	/* A table of the file; empty: as load(). */
	std::string table(const Elf64_Shdr &s) const
	{
		struct stat seen = {};
		std::string bytes;

		if (fstat(in.number, &seen) ||
		    s.sh_size > static_cast<uint64_t>(seen.st_size) || s.sh_size > room)
			return "";
		room -= s.sh_size;
		bytes.resize(s.sh_size);
		return load(s.sh_offset, s.sh_size, bytes.data()) ? bytes : "";
	}

      private:
	/* It may be a pipe, which nobody ends, or a device. */
	static live::descriptor opened(const std::string &path)
	{
		struct stat seen = {};

		if (stat(path.c_str(), &seen) || !S_ISREG(seen.st_mode))
			return live::descriptor(-1);

		live::descriptor in(
			open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
		const bool is_file = !fstat(in.number, &seen) && S_ISREG(seen.st_mode);

		return is_file ? std::move(in) : live::descriptor(-1);
	}

	uint64_t &room;
	const live::descriptor in;
};

/* Of a name of C++. A function of C may have the mangled name of a type: "w" is wchar_t. */
static std::string readable(const char *name)
{
	int status = -1;
	char *plain = std::strncmp(name, "_Z", 2)
			      ? nullptr
			      : abi::__cxa_demangle(name, nullptr, nullptr, &status);
	std::string text = status ? name : plain;

	std::free(plain);
	return text;
}

/* Adds the functions of a table of symbols. */
void symbols::add_functions(const std::string &table, const std::string &names, file &f)
{
	constexpr size_t longest_name = 4096;
	constexpr uint64_t bytes_of_each = 128; /* without its name, about */
	Elf64_Sym symbol;

	for (size_t at = 0; at + sizeof(symbol) <= table.size(); at += sizeof(symbol)) {
		std::memcpy(&symbol, &table[at], sizeof(symbol));
		if (!symbol.st_value || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		    symbol.st_name >= names.size())
			continue;

		const char *name = &names[symbol.st_name];
		const size_t most = std::min(longest_name, names.size() - symbol.st_name);
		const size_t length = strnlen(name, most);
		const uint64_t bytes = bytes_of_each + length;

		/* Symbols may all have one long name. */
		if (bytes > room)
			return;
		if (length < most &&
		    f.functions
			    .emplace(symbol.st_value,
				     function{ symbol.st_value + symbol.st_size, name })
			    .second)
			room -= bytes;
	}
}

symbols::file symbols::read(const std::string &path)
{
	constexpr unsigned int most_segments = 64;
	const image bytes(path, room);
	bool has[2] = {};
	Elf64_Ehdr head;
	file f;

	if (!bytes.load(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64)
		return f;
	f.path = path;
	for (unsigned int i = 0; i < std::min<size_t>(head.e_phnum, most_segments); i++) {
		Elf64_Phdr p;

		if (bytes.load(head.e_phoff + uint64_t{ i } * head.e_phentsize, p) &&
		    p.p_type == PT_LOAD)
			f.segments.push_back({ p.p_offset, p.p_filesz, p.p_vaddr });
	}
	for (unsigned int i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr s, strings;

		if (!bytes.load(head.e_shoff + uint64_t{ i } * head.e_shentsize, s) ||
		    (s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM) ||
		    !bytes.load(head.e_shoff + uint64_t{ s.sh_link } * head.e_shentsize,
				strings))
			continue;

		/* A file has one table of each type. */
		if (!std::exchange(has[s.sh_type == SHT_DYNSYM], true))
			add_functions(bytes.table(s), bytes.table(strings), f);
	}
	return f;
}

/* The file with the code at @at, with its @offset in the file, and the address there in the
 * file's own terms, 0 if it has none; NULL: it is in no file. */
symbols::file *symbols::file_of(live::address at, uint64_t &offset, uint64_t &inside)
{
	const live::mapping *m = find(at);

	if (!m || m->file.empty() || m->file[0] != '/')
		return nullptr;

	auto known = files.find(m->file);

	if (known == files.end())
		known = files.emplace(m->file, read(path_of(*m))).first;
	offset = at - m->start + m->offset;
	inside = 0;
	for (const auto &s : known->second.segments)
		if (offset >= s.offset && offset - s.offset < s.size) {
			inside = offset - s.offset + s.address;
			break;
		}
	return &known->second;
}

/* Without a path, it knows nothing. */
const module_lines &symbols::lines_of(file &f)
{
	if (!f.lines)
		f.lines = std::make_unique<module_lines>(f.path);
	return *f.lines;
}

std::string symbols::name(live::address at)
{
	return live::printable(raw_name(at));
}

std::string symbols::raw_name(live::address at)
{
	uint64_t offset, inside;
	file *f = file_of(at, offset, inside);
	char text[32];

	if (!f) {
		std::snprintf(text, sizeof(text), "0x%llx",
			      static_cast<unsigned long long>(at));
		return text;
	}

	auto next = f->functions.upper_bound(inside);

	if (inside && next != f->functions.begin()) {
		--next;
		/* Functions written in assembly may have no size. */
		if (inside < next->second.end || next->second.end == next->first)
			return readable(next->second.name.c_str());
	}

	const std::string other = inside ? lines_of(*f).function_at(inside) : "";

	if (!other.empty())
		return readable(other.c_str());
	std::snprintf(text, sizeof(text), "+0x%llx", static_cast<unsigned long long>(offset));

	const std::string &path = find(at)->file;

	return path.substr(path.rfind('/') + 1) + text;
}

module_lines::place symbols::line(live::address at)
{
	uint64_t offset, inside;
	file *f = file_of(at, offset, inside);

	if (!f || !inside)
		return {};

	module_lines::place found = lines_of(*f).at(inside);

	found.file = live::printable(found.file);
	return found;
}
