/* SPDX-License-Identifier: MIT */
#include "output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

/* The file that @path leads to, which need not exist. */
static std::string without_links(const std::string &path)
{
	enum { LINKS_MOST = 40 }; /* as many as the system follows */
	char *const resolved = realpath(path.c_str(), nullptr);
	std::string text = resolved ? resolved : path;
	std::error_code failed;

	std::free(resolved);
	for (int i = 0;
	     i < LINKS_MOST && !fs::exists(text, failed) && fs::is_symlink(text, failed); i++)
		text = fs::path(text).parent_path() / fs::read_symlink(text, failed);
	return text;
}

static mode_t usual_mode()
{
	const mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

output_file::output_file(const std::string &path)
    : name(path), target(without_links(path)), file(open_beside())
{
	if (file.number < 0)
		throw_error();
}

output_file::~output_file()
{
	if (!temporary.empty())
		unlink(temporary.c_str());
}

/* Opens the file to be written. Result: -1, errno says why not. */
int output_file::open_beside()
{
	const size_t slash = target.rfind('/');
	struct stat before = {};
	const bool exists = !stat(target.c_str(), &before);

	if (exists && access(target.c_str(), W_OK))
		return -1;
	if (exists && !S_ISREG(before.st_mode))
		return open(target.c_str(), O_WRONLY | O_CLOEXEC);
	/* The name may be as long as names can be. */
	temporary = (slash == std::string::npos ? "" : target.substr(0, slash + 1)) +
		    ".ukmem.XXXXXX";

	const int fd = mkostemp(temporary.data(), O_CLOEXEC);

	if (fd < 0) {
		temporary.clear();
		return exists ? open(target.c_str(), O_WRONLY | O_CLOEXEC) : -1;
	}
	/* The file keeps its owner, if that may be, and its mode. */
	if (!exists || !fchown(fd, before.st_uid, before.st_gid) || before.st_uid == geteuid())
		fchmod(fd, exists ? before.st_mode & 07777 : usual_mode());
	return fd;
}

void output_file::write(const std::string &text)
{
	/* A pipe or a device has no length. */
	if (ftruncate(file.number, 0) && errno != EINVAL)
		throw_error();
	for (size_t done = 0; done < text.size();) {
		const ssize_t n = ::write(file.number, text.data() + done, text.size() - done);

		if (n < 0 && errno != EINTR)
			throw_error();
		done += n > 0 ? static_cast<size_t>(n) : 0;
	}
	if (temporary.empty())
		return;
	if (std::rename(temporary.c_str(), target.c_str()))
		throw_error();
	temporary.clear();
}

void output_file::throw_error() const
{
	throw std::runtime_error(name + ": " + strerror(errno));
}
