/* SPDX-License-Identifier: MIT */
#include "live/library.h"

#include <chrono>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <thread>

using namespace std::chrono_literals;

namespace live
{

namespace
{

constexpr size_t most_headers = 64, most_note_bytes = 65536, most_libraries = 16;
constexpr char note_name[] = "ukmem";

uint64_t align4(uint64_t n)
{
	return (n + 3) & ~3ull;
}

/* Looks for the note in one segment of notes. */
bool find_note(const std::vector<char> &notes, address at, library &found)
{
	for (size_t i = 0; i + sizeof(ElfW(Nhdr)) <= notes.size();) {
		ElfW(Nhdr) header;
		int64_t distance;

		memcpy(&header, &notes[i], sizeof(header));
		const uint64_t name = i + sizeof(header);
		const uint64_t content = name + align4(header.n_namesz);

		if (content + header.n_descsz > notes.size())
			return false;
		if (header.n_namesz == sizeof(note_name) &&
		    !memcmp(&notes[name], note_name, sizeof(note_name)) &&
		    header.n_descsz == sizeof(distance)) {
			memcpy(&distance, &notes[content], sizeof(distance));
			found.layout = at + content + static_cast<uint64_t>(distance);
			found.format = header.n_type;
			return true;
		}
		i = content + align4(header.n_descsz);
	}
	return false;
}

/* Looks at the ELF image whose header is at @m.start. */
bool look_at_image(process_memory &memory, const mapping &m, library &found)
{
	std::vector<ElfW(Phdr)> segments;
	ElfW(Ehdr) header;
	address bias = 0;
	bool loaded = false;

	if (!memory.get(m.start, header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum > most_headers)
		return false;
	segments.resize(header.e_phnum);
	if (!memory.read(m.start + header.e_phoff, segments.data(),
			 segments.size() * sizeof(segments[0])))
		return false;
	for (const auto &s : segments)
		if (s.p_type == PT_LOAD && !loaded) {
			bias = m.start - (s.p_vaddr - s.p_offset);
			loaded = true;
		}
	for (const auto &s : segments) {
		if (s.p_type != PT_NOTE || !loaded || s.p_memsz > most_note_bytes)
			continue;
		std::vector<char> notes(s.p_memsz);

		if (memory.read(bias + s.p_vaddr, notes.data(), notes.size()) &&
		    find_note(notes, bias + s.p_vaddr, found))
			return true;
	}
	return false;
}

} // namespace

std::vector<library> find_libraries(process_memory &memory)
{
	std::vector<library> found;

	for (const mapping &m : memory.mappings()) {
		library l;

		if (m.file.empty() || m.offset || !m.readable)
			continue;
		l.file = m.file;
		if (look_at_image(memory, m, l))
			found.push_back(l);
		if (found.size() == most_libraries)
			break;
	}
	return found;
}

std::vector<library> await_libraries(process_memory &memory)
{
	constexpr unsigned int looks = 20;
	std::vector<library> found = find_libraries(memory);

	for (unsigned int i = 1; i < looks && found.empty(); i++) {
		std::this_thread::sleep_for(5ms);
		found = find_libraries(memory);
	}
	return found;
}

} // namespace live
