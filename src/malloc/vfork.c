/* SPDX-License-Identifier: MIT */
/*
 * vfork, whose child may allocate here: it must run no critical section (percpu/register.c).
 *
 * libc's function would do otherwise, but it cannot be called: the child returns first, and
 * what it then calls overwrites the stack of a function that waits for the parent's return. So
 * the system call is made here, with nothing on the stack:
 *
 *	todo = vfork_prepare()
 *	todo negative:	return vfork_refused()
 *	take the return address into a register, which each of the two processes has its own of
 *	the system call
 *	child:		jump to the return address
 *	parent:		return vfork_parent(result, todo)
 *
 * The child does not return but jumps, because a shadow stack, where there is one, is shared as
 * well: it keeps the parent's return address only if the child does not take it off.
 *
 * Signals are not blocked, as in libc. posix_spawn, system and popen do not come here; their
 * children run libc's own code, which allocates nothing.
 */
#include <errno.h>
#include <unistd.h>

#include "base/compiler.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"
#include "percpu/register.h"

#if UKMEM_HAVE_RSEQ

/* Called by name below. */
#define CALLED_BY_ASM __attribute__((used, visibility("hidden")))
int vfork_prepare(void);
pid_t vfork_refused(void);
pid_t vfork_parent(long result, int todo);

CALLED_BY_ASM int vfork_prepare(void)
{
	return pcpu_init() ? pcpu_registration_suspend() : 0;
}

/* A sandbox that has forbidden rseq since the start: the child gets memory of its own. */
CALLED_BY_ASM pid_t vfork_refused(void)
{
	return fork();
}

CALLED_BY_ASM pid_t vfork_parent(long result, int todo)
{
	if (todo)
		pcpu_registration_resume();
	if (likely(result >= 0))
		return (pid_t)result;
	errno = (int)-result;
	return -1;
}

/* One instruction a line: */
/* clang-format off */

#define FUNCTION_BEGIN(name)                                                                   \
	".text\n\t"                                                                            \
	".balign 16\n\t"                                                                       \
	".globl " #name ", __" #name "\n\t"                                                    \
	".type " #name ", %function\n\t"                                                       \
	".type __" #name ", %function\n"                                                       \
	#name ":\n"                                                                            \
	"__" #name ":\n\t"                                                                     \
	".cfi_startproc\n\t"

#define FUNCTION_END(name)                                                                     \
	".cfi_endproc\n\t"                                                                     \
	".size " #name ", . - " #name "\n\t"                                                   \
	".size __" #name ", . - __" #name "\n"

#if defined(__x86_64__)

__asm__(
	FUNCTION_BEGIN(vfork)
	"endbr64\n\t"
	"subq $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call vfork_prepare\n\t"
	"addq $8, %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"testl %eax, %eax\n\t"
	"js vfork_refused\n\t"
	"movl %eax, %esi\n\t"
	"popq %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdi\n\t"
	"movl $58, %eax\n\t" /* vfork */
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	".cfi_remember_state\n\t"
	"pushq %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_offset %rip, -8\n\t"
	"movq %rax, %rdi\n\t"
	"jmp vfork_parent\n"
	"1:\n\t"
	".cfi_restore_state\n\t"
	"jmp *%rdi\n\t"
	FUNCTION_END(vfork)
);

#elif defined(__aarch64__)

__asm__(
	FUNCTION_BEGIN(vfork)
	"hint #34\n\t" /* bti c */
	"stp x29, x30, [sp, #-16]!\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	".cfi_rel_offset x29, 0\n\t"
	".cfi_rel_offset x30, 8\n\t"
	"mov x29, sp\n\t"
	"bl vfork_prepare\n\t"
	"ldp x29, x30, [sp], #16\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	".cfi_restore x29\n\t"
	".cfi_restore x30\n\t"
	"tbz w0, #31, 1f\n\t"
	"b vfork_refused\n"
	"1:\n\t"
	"mov w9, w0\n\t"
	"mov x0, #0x4111\n\t" /* CLONE_VFORK | CLONE_VM | SIGCHLD */
	"mov x1, #0\n\t"
	"mov x2, #0\n\t"
	"mov x3, #0\n\t"
	"mov x4, #0\n\t"
	"mov x8, #220\n\t" /* clone */
	"svc #0\n\t"
	"cbz x0, 2f\n\t"
	"mov w1, w9\n\t"
	"b vfork_parent\n"
	"2:\n\t"
	"br x30\n\t"
	FUNCTION_END(vfork)
);

#endif

#endif
