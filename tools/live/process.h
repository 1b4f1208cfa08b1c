/* SPDX-License-Identifier: MIT */
/* A process of this machine, read with process_vm_readv(2) and from /proc. */
#ifndef TOOLS_LIVE_PROCESS_H
#define TOOLS_LIVE_PROCESS_H

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "live/memory.h"

namespace live
{

class process : public process_memory
{
      public:
	/** @pid: of the process, or of one of its threads. Throws error: gone; forbidden, if
	 * /proc is that of another PID namespace. */
	explicit process(pid_t pid);

	void begin_look(unsigned int times = 1) override;
	bool read(const std::vector<piece> &pieces) override;
	using process_memory::read;
	std::vector<mapping> mappings() override;
	/** By the mappings that there were at the first call of a look. */
	uint64_t resident(address from, uint64_t size) override;
	bool page_entries(uint64_t first, uint64_t *entries, size_t n) override;
	address next_in_memory(address from, address to) override;
	bool pages_in_memory(address from, uint64_t npages,
			     std::vector<uint8_t> &pages) override;
	void check_alive() override;
	/** Whether a signal or a debugger has stopped it, so that it does nothing. */
	bool is_stopped() const;

	/** The program's name, as in /proc/PID/comm. */
	std::string program() const;

	const pid_t pid;
	/** A look ends after this time. One at a heap of terabytes takes far less. */
	std::chrono::seconds longest_look{ 120 };
	/** Another value than 0 ends a look that is under way, with error: stopped. */
	const volatile std::sig_atomic_t *stop = nullptr;

      private:
	/* Throws error: too_long, stopped. */
	void check_look() const;

	std::chrono::steady_clock::time_point end_of_look;
	std::optional<std::vector<mapping>> counted; /* of this look, by resident() */
	bool scans = true; /* as far as is known: its page map can be scanned */
	bool has_moved();
	[[noreturn]] void fail(int error_number, const char *what) const;

	const uint64_t start_time;
	/* A thread that lives, by which /proc and system calls lead to the memory: the first
	 * one, or another where main() has ended alone, by pthread_exit(). */
	pid_t reached;
};

/** The value of a line "KEY:\tVALUE..." in a status file; empty: there is none. */
std::string status_line(const std::string &file, const std::string &key);

/** What decides whether this command may read a process. */
struct standing {
	uid_t own = 0;		       /**< this command's user */
	bool traces = false;	       /**< this command has CAP_SYS_PTRACE */
	uid_t user = 0, effective = 0; /**< the process's */
	bool hidden = false;	       /**< the process has made itself unreadable */
	int yama = 0;		       /**< kernel.yama.ptrace_scope; 0: without Yama, too */
};

/** @yama: the file that has Yama's scope. */
standing standing_of(pid_t pid, const std::string &yama = "/proc/sys/kernel/yama/ptrace_scope");
/** Why the process was not read, and what helps. */
std::string why_forbidden(const standing &s);

/** All PIDs of this machine, as this PID namespace shows them. Throws error: forbidden. */
std::vector<pid_t> all_processes();

} // namespace live

#endif
