/* SPDX-License-Identifier: MIT */
/* What the threads of a process hold outside of its memory, and how deep their stacks are. */
#ifndef TOOLS_LIVE_THREADS_H
#define TOOLS_LIVE_THREADS_H

#include <set>
#include <vector>

#include <sys/types.h>

#include "live/memory.h"

namespace live
{

struct thread {
	pid_t id;
	address stack; /**< its stack pointer; 0: it runs, so that it cannot be known */
	std::vector<uint64_t> registers; /**< as far as they are known */
};

/**
 * The threads, from outside. Of a thread that waits in a system call, the stack pointer and the
 * call's arguments are known; of others, and of all if the system does not tell, nothing.
 */
std::vector<thread> look_at_threads(pid_t pid);

/**
 * Stops all threads of a process with ptrace(2), without a signal, until it is destroyed; the
 * system lets them go on, too, when this process ends. Nothing else may trace the process.
 */
class stopped_threads
{
      public:
	/** Throws error: forbidden, gone, changing. A thread that waits in the kernel and does
	 * not stop (state D) is forbidden: the others go on after two seconds. */
	explicit stopped_threads(pid_t pid);
	~stopped_threads();
	stopped_threads(const stopped_threads &) = delete;
	stopped_threads &operator=(const stopped_threads &) = delete;

	/** With all registers that programs can keep pointers in. */
	std::vector<thread> all;

      private:
	bool stop(pid_t pid, pid_t id);
	void go_on();

	std::set<pid_t> stopped;
};

} // namespace live

#endif
