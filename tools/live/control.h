/* SPDX-License-Identifier: MIT */
/*
 * What can be asked of a process that serves a socket (src/live/request.h has the protocol).
 *
 *   control      the requests, and what replies mean
 *   connection   brings a request to the process; tests have a fake
 *   socket       the real one
 */
#ifndef TOOLS_LIVE_CONTROL_H
#define TOOLS_LIVE_CONTROL_H

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace live
{

class connection
{
      public:
	virtual ~connection() = default;

	/** Sends a line, without its newline. Result: all that comes back. Throws error. */
	virtual std::string exchange(const std::string &line) = 0;
};

/** Each exchange connects anew. */
class socket : public connection
{
      public:
	explicit socket(pid_t process) : pid(process)
	{
	}

	/** Throws error: gone, no_socket, forbidden, refused (it does not reply). */
	std::string exchange(const std::string &line) override;

	const pid_t pid;
};

/** All functions throw error: as exchange(), and refused. */
class control
{
      public:
	explicit control(connection &to) : connected(to)
	{
	}

	/** Result: bytes given back to the system. */
	uint64_t trim();
	void set_attribute(const std::string &cache, const std::string &name,
			   const std::string &value);
	/** Result: a line for each finding of ukmem_verify(). */
	std::vector<std::string> verify();
	/** Any request. Result: what follows the reply's first line. */
	std::string ask(const std::string &request);

      private:
	connection &connected;
};

} // namespace live

#endif
