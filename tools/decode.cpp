/* SPDX-License-Identifier: MIT */
/*
 * Reports of the library name code by function and by its offset in a file, "parse+0x42
 * (prog+0x1192)": finding a line of source in a process that is about to end would need memory.
 * This command finds it afterwards, from the debug information of the file, or of its separate
 * file, by build ID or link (elfutils' libdw).
 */
#include "decode.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
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

	/* The length of the longest name of a file that stands in @line at @at. */
	size_t name_at(const std::string &line, size_t at) const
	{
		size_t longest = 0;

		for (const auto &[name, path] : known)
			if (!line.compare(at, name.size(), name))
				longest = std::max(longest, name.size());
		return longest;
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

/* "function+0x12 (file+0x1234)" or, where no symbol is exported, "(file+0x1234)" alone; its
 * place in the line. */
struct place {
	size_t begin = 0, end = 0;
	std::string function, file;
	uint64_t offset = 0;
};

/* Of "name+0x12". False: the word is something else. */
bool split(const std::string &word, std::string &name, uint64_t &offset)
{
	const size_t plus = word.rfind("+0x");

	if (plus == std::string::npos || !plus || plus + 3 == word.size() ||
	    word.find_first_not_of("0123456789abcdef", plus + 3) != std::string::npos)
		return false;
	name = word.substr(0, plus);
	offset = std::strtoull(word.c_str() + plus + 3, nullptr, 16);
	return true;
}

/* The next place behind @from. False: there is none. A line may have any length, and the name
 * of a file that is known any characters. */
bool find_place(const std::string &line, size_t from, const modules &files, place &found)
{
	static const std::string space = " \t\v\f\r", ends = space + "()";
	size_t close;

	for (size_t open = line.find('(', from); open != std::string::npos;
	     open = line.find('(', close)) {
		place p;

		close = line.find_first_of(ends, open + 1 + files.name_at(line, open + 1));
		if (close == std::string::npos)
			return false;
		if (line[close] != ')' ||
		    !split(line.substr(open + 1, close - open - 1), p.file, p.offset))
			continue;
		p.begin = open;
		p.end = close + 1;
		if (open > from + 1 && line[open - 1] == ' ') {
			const size_t before = line.find_last_of(space, open - 2);
			const size_t word =
				std::max(from, before == std::string::npos ? 0 : before + 1);
			uint64_t unused;

			if (split(line.substr(word, open - 1 - word), p.function, unused))
				p.begin = word;
		}
		found = p;
		return true;
	}
	return false;
}

/* A line of a report with what is known of the places that it names. */
std::string decoded(const std::string &line, modules &files)
{
	std::string out;
	size_t at = 0;

	for (place p; find_place(line, at, files, p); at = p.end) {
		const module_lines *file = files.find(p.file);
		const std::string source = file ? file->line(p.offset) : "";
		/* The dynamic symbols, of which the report was made, lack static functions. */
		std::string function = file ? file->function(p.offset) : "";

		if (function.empty())
			function = p.function;
		out.append(line, at, p.begin - at);
		if (source.empty()) {
			out.append(line, p.begin, p.end - p.begin);
		} else {
			if (!function.empty())
				out.append(function).append(1, ' ');
			out.append(1, '(').append(source).append(1, ')');
		}
	}
	return out.append(line, at, std::string::npos);
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
	const std::string what = options.report.empty() ? "standard input" : options.report;
	modules files;

	if (!in)
		return fail(EXIT_FAILURE, what + ": " + strerror(errno));
	for (const std::string &name : options.files)
		files.add(name);
	for (std::string line; std::getline(in, line);) {
		std::cout << decoded(line, files);
		/* The last line may have no end. */
		if (!in.eof())
			std::cout << "\n";
		std::cout.flush();
	}
	if (in.bad())
		return fail(EXIT_FAILURE, what + ": cannot be read");
	return end_output();
}
