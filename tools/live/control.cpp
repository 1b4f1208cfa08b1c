/* SPDX-License-Identifier: MIT */
#include "live/control.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "live/descriptor.h"
#include "live/library.h"
#include "live/memory.h"
#include "live/printable.h"
#include "live/process.h"

namespace live
{

namespace
{

using std::chrono::steady_clock;

enum {
	REPLY_MS = 60000,      /* for a whole reply; a large heap is verified in seconds */
	REPLY_BYTES = 1 << 20, /* more is no reply */
};

constexpr const char *greeting = "ukmem 1 ";

std::istringstream status_words(pid_t pid, const char *key)
{
	return std::istringstream(status_line("/proc/" + std::to_string(pid) + "/status", key));
}

/* The process's PID as it sees it itself: the last one of its PID namespaces. */
std::string own_pid(pid_t pid)
{
	std::istringstream words = status_words(pid, "NSpid");
	std::string word, last = std::to_string(pid);

	while (words >> word)
		last = word;
	return last;
}

/* Abstract sockets of the process's network namespace whose names are as its own would be. */
std::vector<std::string> names_of(pid_t pid)
{
	const std::string prefix = "@ukmem/" + own_pid(pid) + "/";
	std::ifstream in("/proc/" + std::to_string(pid) + "/net/unix");
	std::vector<std::string> names;

	/* Where main() has ended and other threads go on, the system shows no namespace. */
	if (in.peek() == std::ifstream::traits_type::eof())
		in = std::ifstream("/proc/net/unix");

	for (std::string line; std::getline(in, line);) {
		const size_t at = line.rfind(' ') + 1;

		if (at && !line.compare(at, prefix.size(), prefix) &&
		    std::find(names.begin(), names.end(), line.substr(at + 1)) == names.end())
			names.push_back(line.substr(at + 1));
	}
	return names;
}

/* Whether @uid is one of the process's. */
bool has_uid(pid_t pid, uid_t uid)
{
	std::istringstream words = status_words(pid, "Uid");
	uid_t its;

	while (words >> its)
		if (its == uid)
			return true;
	return false;
}

/* Another process may have made a socket of that name; the system tells whose it is: by a
 * number, which is a new process's when the one that made it has ended and a child holds the
 * socket, so the user counts, too. */
bool is_of(int fd, pid_t pid)
{
	ucred peer = {};
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid == pid &&
	       (!peer.uid || has_uid(pid, peer.uid));
}

/* -1: nobody listens there, or another process; @busy: nobody accepts, whoever it is. Another
 * user's socket must not keep this command waiting. */
descriptor connect_to(const std::string &name, pid_t pid, bool &busy)
{
	sockaddr_un to = {};
	descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	to.sun_family = AF_UNIX;
	if (fd.number < 0 || name.size() + 1 > sizeof(to.sun_path))
		return descriptor(-1);
	memcpy(to.sun_path + 1, name.data(), name.size());

	const socklen_t size =
		static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());

	if (connect(fd.number, reinterpret_cast<const sockaddr *>(&to), size)) {
		busy = busy || errno == EAGAIN;
		return descriptor(-1);
	}
	return is_of(fd.number, pid) ? std::move(fd) : descriptor(-1);
}

/* Throws if the process has no library, which would be why it has no socket. */
void expect_library(process &target)
{
	try {
		if (!await_libraries(target).empty())
			return;
	} catch (const error &) {
		return; /* not known */
	}
	target.check_alive(); /* what has ended has no libraries any more */
	throw error(reason::no_library, "it does not run on ukmem");
}

[[noreturn]] void no_reply(const std::string &why)
{
	throw error(reason::refused, "it does not reply: " + why);
}

descriptor connect_to(process &target)
{
	const pid_t pid = target.pid;
	const std::vector<std::string> names = names_of(pid);
	bool busy = false;

	for (const std::string &name : names) {
		descriptor fd = connect_to(name, pid, busy);

		if (fd.number >= 0)
			return fd;
	}
	if (busy)
		no_reply("other requests wait already");
	if (!names.empty())
		throw error(reason::no_socket,
			    "its socket is in another network namespace; run this there "
			    "(nsenter --net --target " +
				    std::to_string(pid) + ")");
	target.check_alive();
	expect_library(target);
	throw error(
		reason::no_socket,
		"it has no socket; start it with 'ukmem run --conf live:1', or with live:1 in "
		"UKMEM_CONF\n(under 'ukmem run' alone, without --stats, a program has one that "
		"has threads\nand has allocated since the first of them)");
}

std::string receive_all(int fd)
{
	const auto end = steady_clock::now() + std::chrono::milliseconds(REPLY_MS);
	std::string all;
	char part[4096];

	for (;;) {
		pollfd p = { fd, POLLIN, 0 };
		const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
			end - steady_clock::now());
		const int ready = poll(&p, 1, std::max(static_cast<int>(left.count()), 0));

		if (!ready)
			no_reply("it is in a sandbox, was stopped meanwhile, or serves another "
				 "command");
		if (ready < 0 && errno == EINTR)
			continue;

		const ssize_t n = ready < 0 ? -1 : read(fd, part, sizeof(part));

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		/* A process that refuses before the request came closes with that unread. */
		if (n < 0 && errno == ECONNRESET && !all.empty())
			return all;
		if (n < 0)
			no_reply(strerror(errno));
		if (!n)
			return all;
		all.append(part, static_cast<size_t>(n));
		if (all.size() > REPLY_BYTES)
			no_reply("what it sends has no end");
	}
}

} // namespace

std::string socket::exchange(const std::string &line)
{
	const std::string text = line + "\n";

	process target(pid); /* throws if there is none */

	if (target.is_stopped())
		no_reply("it is stopped, by a signal (kill -CONT " + std::to_string(pid) +
			 " lets it go on) or by a debugger");

	const descriptor fd = connect_to(target);

	/* The process may have refused before the line came, so the reply says why it failed.
	 */
	const ssize_t sent = send(fd.number, text.data(), text.size(), MSG_NOSIGNAL);
	std::string reply = receive_all(fd.number);

	if (reply.empty() && sent != static_cast<ssize_t>(text.size()))
		no_reply("it takes no request");
	return reply;
}

std::string control::ask(const std::string &request)
{
	if (request.find_first_of(std::string("\n\0", 2)) != std::string::npos)
		throw error(reason::refused, "a request is one line");

	const std::string reply = connected.exchange(greeting + request);
	const size_t end = reply.find('\n');
	const std::string first = reply.substr(0, end);
	const std::string ok = std::string(greeting) + "ok";
	const std::string wrong = std::string(greeting) + "error ";

	if (reply.empty())
		throw error(reason::refused, "it closed its socket without a reply");
	if (end == std::string::npos)
		throw error(reason::refused, "its reply is not complete");
	if (!first.compare(0, wrong.size(), wrong))
		throw error(reason::refused, printable(first.substr(wrong.size())));
	if (first != ok)
		throw error(reason::refused, "its reply is of another version of ukmem");
	return reply.substr(end + 1);
}

uint64_t control::trim()
{
	const std::string reply = ask("trim");
	std::istringstream in(reply);
	uint64_t bytes = 0;
	char end = 0;

	if (reply.empty() || !std::isdigit(static_cast<unsigned char>(reply[0])) ||
	    !(in >> bytes) || !in.get(end) || end != '\n' ||
	    in.peek() != std::istringstream::traits_type::eof())
		throw error(reason::refused, "its reply is no number of bytes");
	return bytes;
}

void control::set_attribute(const std::string &cache, const std::string &name,
			    const std::string &value)
{
	ask("attr " + cache + " " + name + " " + value);
}

std::vector<std::string> control::verify()
{
	std::istringstream in(ask("verify"));
	std::vector<std::string> findings;

	for (std::string line; std::getline(in, line);)
		findings.push_back(printable(line));
	return findings;
}

} // namespace live
