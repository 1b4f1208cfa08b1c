/* SPDX-License-Identifier: MIT */
#include "live/threads.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <thread>

#include "live/process.h"

namespace live
{

namespace fs = std::filesystem;

namespace
{

std::string task_directory(pid_t pid)
{
	return "/proc/" + std::to_string(pid) + "/task";
}

std::vector<pid_t> threads_of(pid_t pid)
{
	std::vector<pid_t> ids;
	std::error_code failed;

	for (fs::directory_iterator i(task_directory(pid), failed), end; !failed && i != end;
	     i.increment(failed))
		ids.push_back(std::stoi(i->path().filename()));
	return ids;
}

std::string status_of(pid_t pid, pid_t id, const char *key)
{
	return status_line(task_directory(pid) + "/" + std::to_string(id) + "/status", key);
}

/* A set of registers as 64-bit words; empty: the system does not have it. */
std::vector<uint64_t> registers(pid_t id, unsigned int set)
{
	std::vector<uint64_t> words(2048);
	iovec to = { words.data(), words.size() * sizeof(words[0]) };

	if (ptrace(PTRACE_GETREGSET, id, set, &to) != 0)
		to.iov_len = 0;
	words.resize(to.iov_len / sizeof(words[0]));
	return words;
}

thread registers_of(pid_t id)
{
	thread t = { id, 0, registers(id, NT_PRSTATUS) };
	user_regs_struct regs;

	if (t.registers.size() * sizeof(uint64_t) >= sizeof(regs)) {
		memcpy(&regs, t.registers.data(), sizeof(regs));
#ifdef __aarch64__
		t.stack = regs.sp;
#else
		t.stack = regs.rsp;
#endif
	}
#ifdef __aarch64__
	const std::vector<uint64_t> vectors = registers(id, NT_FPREGSET);
#else
	std::vector<uint64_t> vectors = registers(id, NT_X86_XSTATE);

	if (vectors.empty())
		vectors = registers(id, NT_FPREGSET);
#endif
	t.registers.insert(t.registers.end(), vectors.begin(), vectors.end());
	return t;
}

} // namespace

std::vector<thread> look_at_threads(pid_t pid)
{
	enum { ARGUMENTS = 6 };
	std::vector<thread> all;

	for (pid_t id : threads_of(pid)) {
		std::ifstream in(task_directory(pid) + "/" + std::to_string(id) + "/syscall");
		thread t = { id, 0, {} };
		std::string word;
		std::vector<uint64_t> words;

		/* "running", or: number, arguments, stack pointer, program counter. */
		if (in >> word && word != "running")
			for (; in >> word && words.size() <= ARGUMENTS;)
				words.push_back(strtoull(word.c_str(), nullptr, 16));
		/* Outside of a call there are no arguments. */
		if (words.size() > ARGUMENTS) {
			t.stack = words[ARGUMENTS];
			t.registers.assign(words.begin(), words.begin() + ARGUMENTS);
		}
		all.push_back(t);
	}
	return all;
}

/* Waits as waitpid(), for a thread that stops soon or not at all. Result: 0: it did not. */
static pid_t wait_a_while(pid_t id, int *status)
{
	constexpr auto most = std::chrono::seconds(2);
	constexpr auto step = std::chrono::milliseconds(1);
	constexpr unsigned int soon = 100;
	const auto end = std::chrono::steady_clock::now() + most;

	for (unsigned int n = 0;; n++) {
		const pid_t got = waitpid(id, status, __WALL | WNOHANG);

		if (got || std::chrono::steady_clock::now() > end)
			return got;
		if (n < soon)
			sched_yield();
		else
			std::this_thread::sleep_for(step);
	}
}

/*
 * Waits until thread @id stops for us. A signal that reached it first is delivered, else it
 * would be lost; the thread stops before it handles that. False: the thread has ended.
 */
static bool wait_until_stopped(pid_t pid, pid_t id)
{
	for (;;) {
		int status;
		const pid_t got = wait_a_while(id, &status);

		if (!got)
			throw error(reason::forbidden,
				    "it cannot be stopped: its thread " + std::to_string(id) +
					    " waits in the kernel, state " +
					    status_of(pid, id, "State") +
					    "; try again, or without --stop");
		if (got != id || !WIFSTOPPED(status))
			return false;
		if (status >> 16 == PTRACE_EVENT_STOP)
			return true;
		ptrace(PTRACE_CONT, id, nullptr, WSTOPSIG(status));
	}
}

/* False: the thread has ended. */
bool stopped_threads::stop(pid_t pid, pid_t id)
{
	if (ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0) {
		const int why = errno;

		/* That main() has ended alone does not matter. */
		if (why == ESRCH || status_of(pid, id, "State").substr(0, 1) == "Z")
			return false;

		const std::string tracer = status_of(pid, id, "TracerPid");

		if (!tracer.empty() && tracer != "0")
			throw error(reason::forbidden, "it cannot be stopped: process " +
							       tracer + " traces it already");
		throw error(reason::forbidden, std::string("it cannot be stopped: ptrace: ") +
						       strerror(why) +
						       "; run this as root, or without --stop");
	}
	stopped.insert(id);
	if (ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr) != 0)
		return false;
	if (!wait_until_stopped(pid, id)) {
		stopped.erase(id);
		return false;
	}
	return true;
}

stopped_threads::stopped_threads(pid_t pid)
{
	constexpr int most_rounds = 100;
	std::set<pid_t> ended;

	try {
		/* Until a round finds none that a thread still running has started. */
		for (int round = 0;; round++) {
			bool found = false;

			for (pid_t id : threads_of(pid)) {
				if (stopped.count(id) || ended.count(id))
					continue;
				found = true;
				if (!stop(pid, id))
					ended.insert(id);
			}
			if (!found)
				break;
			if (round == most_rounds)
				throw error(reason::changing,
					    "it starts threads faster than they can be "
					    "stopped");
		}
		if (stopped.empty())
			throw error(reason::gone, "the process has ended");
		for (pid_t id : stopped)
			all.push_back(registers_of(id));
	} catch (...) {
		go_on();
		throw;
	}
}

/* One that has not stopped yet is let go when this process ends. */
void stopped_threads::go_on()
{
	for (pid_t id : stopped)
		ptrace(PTRACE_DETACH, id, nullptr, nullptr);
	stopped.clear();
}

stopped_threads::~stopped_threads()
{
	go_on();
}

} // namespace live
