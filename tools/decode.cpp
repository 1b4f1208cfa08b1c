/* SPDX-License-Identifier: MIT */
/*
 * Reports of the library name code by function and by its offset in a file, "parse+0x42
 * (prog+0x1192)": finding a line of source in a process that is about to end would need memory.
 * This command finds it afterwards, from the debug information of the file, or of its separate
 * file, by build ID or link (elfutils' libdw).
 */
#include "decode.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "command.h"
#include "lines.h"
#include "words.h"

namespace fs = std::filesystem;

namespace
{

/* The files that reports name by their last part. */
class modules
{
      public:
	/** Looks for @path: a file, or a folder whose files may be meant. */
	void add(const fs::path &path)
	{
		std::error_code error;

		if (fs::is_directory(path, error)) {
			folders.push_back(path);
		} else {
			const fs::path file = fs::canonical(path, error);

			known[path.filename()] = error ? path : file;
			known.emplace(file.filename(), file);
			folders.push_back(file.parent_path());
		}
	}

	const module_lines *find(const std::string &name)
	{
		const auto have = read.find(name);

		if (have != read.end())
			return have->second.get();

		const fs::path file = locate(name);

		return read
			.emplace(name,
				 file.empty() ? nullptr : std::make_unique<module_lines>(file))
			.first->second.get();
	}

      private:
	fs::path locate(const std::string &name) const
	{
		std::error_code error;
		const auto have = known.find(name);

		if (have != known.end())
			return have->second;
		for (const fs::path &folder : folders)
			if (fs::is_regular_file(folder / name, error))
				return folder / name;
		for (const char *folder :
		     { "/lib/" UKMEM_MULTIARCH, "/usr/lib/" UKMEM_MULTIARCH, "/usr/lib",
		       "/usr/local/lib", "/lib64", "/usr/lib64" })
			if (fs::is_regular_file(fs::path(folder) / name, error))
				return fs::path(folder) / name;
		return {};
	}

	std::vector<fs::path> folders;
	std::map<std::string, fs::path> known;
	std::map<std::string, std::unique_ptr<module_lines>> read;
};

/* A line of a report with what is known of the places that it names. */
std::string decoded(const std::string &line, modules &files)
{
	/* "function+0x12 (file+0x1234)" or, where no symbol is exported, "(file+0x1234)" alone.
	 */
	static const std::regex place(
		R"((?:(\S+)\+0x[0-9a-f]+ )?\(([^\s()]+)\+0x([0-9a-f]+)\))");
	std::string out;
	auto at = line.cbegin();

	for (std::sregex_iterator i(line.begin(), line.end(), place), end; i != end; ++i) {
		const std::smatch &m = *i;
		const module_lines *file = files.find(m[2]);
		const uint64_t offset = std::strtoull(m[3].str().c_str(), nullptr, 16);
		const std::string source = file ? file->line(offset) : "";
		/* The dynamic symbols, of which the report was made, lack static functions. */
		std::string function = file ? file->function(offset) : "";

		if (function.empty())
			function = m[1].str();
		out.append(at, m[0].first);
		if (source.empty()) {
			out += m.str();
		} else {
			if (!function.empty())
				out.append(function).append(1, ' ');
			out.append(1, '(').append(source).append(1, ')');
		}
		at = m[0].second;
	}
	return out.append(at, line.cend());
}

} // namespace

CLI::App *add_decode(CLI::App &app, decode_options &options)
{
	CLI::App *command = add_command(
		app, "decode", " FILE...",
		"Name lines of source in a report: a filter for what a program prints");

	command->add_option("FILES", options.files,
			    "The program that printed it, libraries, or their folders")
		->type_name("")
		->required()
		->check(CLI::ExistingPath);
	command->add_option("--report", options.report, "Read this file, not standard input")
		->type_name("FILE")
		->check(CLI::ExistingFile);
	command->footer(
		"Reports name code by its offset in a file. Lines of source take the place of\n"
		"offsets where the file has debug information, or where that is installed "
		"apart:\n\n"
		"  UKMEM_CONF=slab_debug:FZPU ukmem run ./program 2>&1 | ukmem decode "
		"./program");
	return command;
}

int decode(const decode_options &options)
{
	std::ifstream file(options.report);
	std::istream &in = options.report.empty() ? std::cin : file;
	modules files;

	for (const std::string &name : options.files)
		files.add(name);
	for (std::string line; std::getline(in, line);)
		std::cout << decoded(line, files) << std::endl;
	return end_output();
}
