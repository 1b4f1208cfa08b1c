/* SPDX-License-Identifier: MIT */
#include "preload.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "program_file.h"

namespace fs = std::filesystem;

static const char malloc_library[] = "libukmem-malloc.so";

/* Places of the drop-in: beside the tool if that is in a build tree, then the libdirs of its
 * prefix. */
static std::vector<fs::path> library_places()
{
	std::error_code ignored;
	const fs::path tool_dir = fs::read_symlink("/proc/self/exe", ignored).parent_path();
	const fs::path prefix = tool_dir.parent_path();
	std::vector<fs::path> places;

	/* Only a build tree has it. A prefix may have a src/malloc that is not of this
	 * installation. */
	if (fs::is_directory(prefix / "CMakeFiles", ignored))
		places.push_back(prefix / "src" / "malloc");
	for (const char *dir : { UKMEM_LIBDIR, "lib", "lib64", "lib/" UKMEM_MULTIARCH }) {
		const fs::path place = (prefix / dir).lexically_normal();

		if (std::find(places.begin(), places.end(), place) == places.end())
			places.push_back(place);
	}
	return places;
}

std::string find_malloc_library(std::vector<std::string> &looked_at)
{
	const char *given = getenv("UKMEM_MALLOC_LIB");

	if (given && *given) {
		looked_at.push_back(std::string(given) + " (UKMEM_MALLOC_LIB)");
		return access(given, R_OK) ? "" : fs::absolute(given).string();
	}
	for (const fs::path &place : library_places()) {
		std::string path = place / malloc_library;

		looked_at.push_back(path);
		if (!access(path.c_str(), R_OK))
			return path;
	}
	return "";
}

void env_prepend(const char *name, const std::string &value, char separator)
{
	const char *old = getenv(name);

	setenv(name, (old && *old ? value + separator + old : value).c_str(), 1);
}

void env_append(const char *name, const std::string &value, char separator)
{
	const char *old = getenv(name);

	setenv(name, (old && *old ? std::string(old) + separator + value : value).c_str(), 1);
}

std::string find_program(const std::string &program)
{
	if (program.find('/') != std::string::npos)
		return program;

	const char *path = getenv("PATH");
	std::istringstream dirs(path ? path : "/bin:/usr/bin");

	for (std::string dir; std::getline(dirs, dir, ':');) {
		std::string candidate = fs::path(dir.empty() ? "." : dir) / program;
		struct stat st;

		if (!stat(candidate.c_str(), &st) && S_ISREG(st.st_mode) &&
		    !access(candidate.c_str(), X_OK))
			return candidate;
	}
	return "";
}

static bool is_of_musl(const program_file &file)
{
	return file.loader.find("ld-musl-") != std::string::npos;
}

/* Why the program in @path, which the loader would preload, has another malloc. */
static std::string obstacle_in(const std::string &path)
{
	const program_file program = read_program_file(path);

	if (!program.is_elf)
		return "";

	const program_file own = read_program_file("/proc/self/exe");

	if (program.bits != own.bits || program.machine != own.machine)
		return "is for another kind of processor, or of another word size";
	if (program.loader.empty())
		return "is statically linked";
	if (is_of_musl(program) != is_of_musl(own))
		return "is linked to another libc (" + program.loader + ")";

	const std::string name = find_own_malloc(path);

	return name.empty() ? "" : "has " + name + " built in";
}

std::string preload_obstacle(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st))
		return "";
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) && st.st_gid != getgid()))
		return "is setuid or setgid";
	if (getuid() && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
		return "has file capabilities";
	return obstacle_in(path);
}
