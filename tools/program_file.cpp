/* SPDX-License-Identifier: MIT */
#include "program_file.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <gelf.h>
#include <memory>
#include <unistd.h>

namespace
{

/* An open file, read by libelf, which checks what the file says of itself. */
class Elf_file
{
      public:
	explicit Elf_file(const std::string &path)
	    : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC))
	{
		elf_version(EV_CURRENT);
		if (fd_ >= 0)
			elf_.reset(elf_begin(fd_, ELF_C_READ_MMAP, nullptr));
	}
	~Elf_file()
	{
		elf_.reset();
		if (fd_ >= 0)
			close(fd_);
	}
	Elf_file(const Elf_file &) = delete;
	Elf_file &operator=(const Elf_file &) = delete;

	bool header(GElf_Ehdr &header) const
	{
		return elf_ && elf_kind(elf_.get()) == ELF_K_ELF &&
		       gelf_getehdr(elf_.get(), &header);
	}

	/* Calls @visit with each program header. */
	template <typename Visit> void for_each_segment(Visit visit) const
	{
		size_t n = 0;
		GElf_Phdr segment;

		if (elf_getphdrnum(elf_.get(), &n))
			return;
		for (size_t i = 0; i < n; i++)
			if (gelf_getphdr(elf_.get(), static_cast<int>(i), &segment))
				visit(segment);
	}

	/* Calls @visit with the name of each function that a table of symbols of @type defines.
	 */
	template <typename Visit> void for_each_function(unsigned type, Visit visit) const
	{
		for (Elf_Scn *section = nullptr;
		     (section = elf_nextscn(elf_.get(), section));) {
			GElf_Shdr header;

			if (gelf_getshdr(section, &header) && header.sh_type == type)
				visit_functions(section, header, visit);
		}
	}

	/* The text in @segment of the file. */
	std::string text(const GElf_Phdr &segment) const
	{
		size_t size = 0;
		const char *file = elf_rawfile(elf_.get(), &size);

		if (!file || segment.p_offset > size ||
		    segment.p_filesz > size - segment.p_offset)
			return "";
		return std::string(file + segment.p_offset,
				   strnlen(file + segment.p_offset, segment.p_filesz));
	}

      private:
	struct Ending {
		void operator()(Elf *elf) const
		{
			elf_end(elf);
		}
	};

	template <typename Visit>
	void visit_functions(Elf_Scn *section, const GElf_Shdr &header, Visit visit) const
	{
		Elf_Data *data = elf_getdata(section, nullptr);
		GElf_Sym symbol;

		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			const unsigned kind = GELF_ST_TYPE(symbol.st_info);
			const char *name =
				symbol.st_shndx == SHN_UNDEF ||
						(kind != STT_FUNC && kind != STT_GNU_IFUNC)
					? nullptr
					: elf_strptr(elf_.get(), header.sh_link,
						     symbol.st_name);

			if (name)
				visit(name);
		}
	}

	int fd_;
	std::unique_ptr<Elf, Ending> elf_;
};

} // namespace

program_file read_program_file(const std::string &path)
{
	const Elf_file file(path);
	program_file program;
	GElf_Ehdr header;

	if (!file.header(header))
		return program;
	program.is_elf = true;
	program.machine = header.e_machine;
	program.bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	file.for_each_segment([&](const GElf_Phdr &segment) {
		if (segment.p_type == PT_INTERP)
			program.loader = file.text(segment);
	});
	return program;
}

/* Other programs and libraries find what the table for the dynamic linker has; a malloc under
 * another name is the program's own business, and only the table for debuggers may have it. */
std::string find_own_malloc(const std::string &path)
{
	static const char *const built_in[] = { "je_malloc", "_rjem_malloc" };
	const Elf_file file(path);
	std::string found;
	GElf_Ehdr header;

	if (!file.header(header))
		return found;
	file.for_each_function(SHT_DYNSYM, [&](const char *name) {
		if (!strcmp(name, "malloc"))
			found = name;
	});
	if (!found.empty())
		return found;
	for (unsigned table : { SHT_DYNSYM, SHT_SYMTAB })
		file.for_each_function(table, [&](const char *name) {
			if (std::any_of(std::begin(built_in), std::end(built_in),
					[&](const char *own) { return !strcmp(own, name); }))
				found = name;
		});
	return found;
}
