/* SPDX-License-Identifier: MIT */
/* The processor interrupts a test after each of its instructions. ThreadSanitizer calls
 * handlers when it wants, and other processors have no such flag: there STEPS is 0. */
#ifndef UNIT_EACH_INSTRUCTION_H
#define UNIT_EACH_INSTRUCTION_H

#include <csignal>
#include <cstdint>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define STEPS 1

/* From here on, or until here, the processor traps after each instruction: SIGTRAP. */
inline void step(bool on)
{
	uint64_t flags = on ? 0x100 : 0;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "orq %0, (%%rsp)\n\t"
			 "popfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "r"(flags)
			 : "cc", "memory");
}

/* A handler makes a copy of the process, which goes on where the program was interrupted. True:
 * this is the copy. False: the copy has ended with *@status. A fork() would wait for locks that
 * the thread may hold. */
inline bool is_copy(int *status)
{
	auto pid = static_cast<pid_t>(syscall(SYS_fork));

	*status = -1;
	return !pid || (waitpid(pid, status, 0), false);
}
#else
#define STEPS 0
#endif

#endif
