/* SPDX-License-Identifier: MIT */
/*
 * vfork for programs whose child allocates: the child must run no section (percpu/register.c).
 *
 * This function cannot call libc's vfork: the child returns first, and the functions it then
 * calls overwrite the stack frame to which the parent returns later. So it makes the system
 * call itself, with nothing on the stack:
 *
 *	todo = vfork_prepare()
 *	todo negative:	return vfork_refused()
 *	move the return address into a register; each process has its own registers
 *	make the system call
 *	child:		jump to the return address
 *	parent:		return vfork_parent(result, todo)
 *
 * The child jumps to the return address instead of returning, because both processes share the
 * shadow stack, where there is one: a return would take the parent's return address off it.
 *
 * As in libc, signals are not blocked. posix_spawn, system and popen do not call this function;
 * their children run libc's own code, which does not allocate.
 */
#include <errno.h>
#include <unistd.h>

#include "base/compiler.h"
#include "kmalloc/kmalloc.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/register.h"

#if UKMEM_HAVE_RSEQ

/* The assembly below calls these functions by name. */
#define CALLED_BY_ASM __attribute__((used, visibility("hidden")))
int vfork_prepare(void);
pid_t vfork_refused(void);
pid_t vfork_parent(long result, int todo);

CALLED_BY_ASM int vfork_prepare(void)
{
	os_vfork_begin();
	/* The child must not be the one to initialise the layers: it has another process id,
	 * and runs no sections. */
	return kmalloc_init() ? pcpu_registration_suspend() : 0;
}

/* A sandbox may forbid the rseq call since the start. Then the child gets memory of its own. */
CALLED_BY_ASM pid_t vfork_refused(void)
{
	os_vfork_end();
	return fork();
}

CALLED_BY_ASM pid_t vfork_parent(long result, int todo)
{
	if (todo)
		pcpu_registration_resume();
	os_vfork_end();
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
