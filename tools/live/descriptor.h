/* SPDX-License-Identifier: MIT */
/* A file descriptor that is closed in the end. */
#ifndef TOOLS_LIVE_DESCRIPTOR_H
#define TOOLS_LIVE_DESCRIPTOR_H

#include <unistd.h>

namespace live
{

class descriptor
{
      public:
	/** @fd: what open() and the like returned; -1: there is none. */
	explicit descriptor(int fd) : number(fd)
	{
	}
	~descriptor()
	{
		if (number >= 0)
			close(number);
	}
	descriptor(const descriptor &) = delete;
	descriptor &operator=(const descriptor &) = delete;
	descriptor(descriptor &&other) noexcept : number(other.number)
	{
		other.number = -1;
	}
	descriptor &operator=(descriptor &&) = delete;

	int number;
};

} // namespace live

#endif
