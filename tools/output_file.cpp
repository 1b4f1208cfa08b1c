/* SPDX-License-Identifier: MIT */
#include "output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

/*
 * Whether the user may have made the link, or who owns the folder that it lies in. In a folder
 * for all, like /tmp, another user may have made it, to have a file written that this user
 * alone can write. Where the tool writes it is not the system that follows links, which would
 * refuse (fs.protected_symlinks).
 */
static bool is_trusted_link(const std::string &link, const std::string &folder)
{
	struct stat made = {}, in = {};

	if (lstat(link.c_str(), &made) || stat(folder.c_str(), &in))
		return false;
	return !(in.st_mode & S_ISVTX) || !(in.st_mode & S_IWOTH) || made.st_uid == geteuid() ||
	       made.st_uid == in.st_uid;
}

/* The file that @path leads to, which need not exist; @path itself, if that is none that can be
 * replaced: what /dev/stdout leads to may have no name. Throws as output_file. */
static std::string without_links(const std::string &path)
{
	enum { LINKS_MOST = 40 }; /* as many as the system follows */
	struct stat seen = {};
	std::string text = path;
	std::error_code failed;

	for (int i = 0; fs::is_symlink(fs::symlink_status(text, failed)); i++) {
		const fs::path folder = fs::path(text).parent_path();

		if (i == LINKS_MOST)
			throw std::runtime_error(path + ": " + strerror(ELOOP));
		if (!is_trusted_link(text, folder.empty() ? "." : folder.string()))
			throw std::runtime_error(
				path +
				": a link on its way is another user's, in a folder for all");
		text = folder / fs::read_symlink(text, failed);
	}
	return !stat(path.c_str(), &seen) && !S_ISREG(seen.st_mode) ? path : text;
}

static mode_t usual_mode()
{
	const mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

output_file::output_file(const std::string &path) : name(path), target(without_links(path))
{
	file.emplace(open_beside());
	if (file->number < 0)
		throw_error();
	if (temporary.empty())
		return;
	remove_temporary();
	file.reset();
}

output_file::~output_file()
{
	remove_temporary();
}

void output_file::remove_temporary()
{
	if (!temporary.empty())
		unlink(temporary.c_str());
	temporary.clear();
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
		return exists ? open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	}
	/* The file keeps its owner, if that may be, and its mode. */
	if (!exists || !fchown(fd, before.st_uid, before.st_gid) || before.st_uid == geteuid())
		fchmod(fd, exists ? before.st_mode & 07777 : usual_mode());
	return fd;
}

void output_file::write(const std::string &text)
{
	if (!file)
		file.emplace(open_beside());
	/* A pipe or a device has no length. */
	if (file->number < 0 || (ftruncate(file->number, 0) && errno != EINVAL))
		throw_error();
	for (size_t done = 0; done < text.size();) {
		const ssize_t n = ::write(file->number, text.data() + done, text.size() - done);

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
