/* SPDX-License-Identifier: MIT */
#include "lines.h"

#include <cstdlib>

#include <dwarf.h>
#include <elfutils/libdw.h>

namespace fs = std::filesystem;

const Dwfl_Callbacks module_lines::callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = nullptr,
};

module_lines::module_lines(const fs::path &file) : dwfl(dwfl_begin(&callbacks))
{
	if (!dwfl)
		return;
	module = dwfl_report_offline(dwfl.get(), file.filename().c_str(), file.c_str(), -1);
	dwfl_report_end(dwfl.get(), nullptr, nullptr);
}

static module_lines::place place_of(Dwfl_Module *module, Dwarf_Addr address)
{
	int number = 0;
	Dwfl_Line *found = dwfl_module_getsrc(module, address);
	const char *file =
		found ? dwfl_lineinfo(found, nullptr, &number, nullptr, nullptr, nullptr)
		      : nullptr;

	return file && number > 0 ? module_lines::place{ file, number } : module_lines::place{};
}

std::string module_lines::line(uint64_t offset) const
{
	Dwarf_Addr start = 0;

	if (!module)
		return "";
	dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);

	const place found = place_of(module, start + offset - 1);

	return found.file.empty() ? ""
				  : fs::path(found.file).filename().string() + ":" +
					    std::to_string(found.line);
}

std::string module_lines::function(uint64_t offset) const
{
	Dwarf_Addr start = 0;

	if (!module)
		return "";
	dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);

	const char *name = dwfl_module_addrname(module, start + offset - 1);

	return name ? name : "";
}

namespace
{

/* Scopes as libdw returns them. */
struct scopes {
	~scopes()
	{
		std::free(all);
	}

	Dwarf_Die *all = nullptr;
	int nr = 0;
};

/* Where @inlined is called; without a file: not known. */
module_lines::place call_of(Dwarf_Die *cu, Dwarf_Die *inlined)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file = 0, line = 0;
	Dwarf_Files *files = nullptr;
	size_t nr = 0;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) ||
	    dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) ||
	    dwarf_getsrcfiles(cu, &files, &nr) || file >= nr)
		return {};

	const char *name = dwarf_filesrc(files, file, nullptr, nullptr);

	return name ? module_lines::place{ name, static_cast<int>(line) }
		    : module_lines::place{};
}

} // namespace

module_lines::place module_lines::at(uint64_t address) const
{
	GElf_Addr bias = 0;
	Dwarf_Addr dwarf_bias = 0;
	scopes lexical, outward;
	place outermost;

	if (!module || !dwfl_module_getelf(module, &bias))
		return {};

	Dwarf_Die *cu = dwfl_module_addrdie(module, address + bias, &dwarf_bias);

	/* The first of them is that of the address; those behind it may be of a definition. */
	if (cu)
		lexical.nr = dwarf_getscopes(cu, address + bias - dwarf_bias, &lexical.all);
	if (lexical.nr > 0)
		outward.nr = dwarf_getscopes_die(&lexical.all[0], &outward.all);
	for (int i = 0; i < outward.nr; i++) {
		const int tag = dwarf_tag(&outward.all[i]);

		if (tag == DW_TAG_subprogram)
			break;
		if (tag == DW_TAG_inlined_subroutine)
			outermost = call_of(cu, &outward.all[i]);
	}
	return outermost.file.empty() ? place_of(module, address + bias) : outermost;
}

std::string module_lines::function_at(uint64_t address) const
{
	GElf_Addr bias = 0;

	if (!module || !dwfl_module_getelf(module, &bias))
		return "";

	const char *name = dwfl_module_addrname(module, address + bias);

	return name ? name : "";
}
