/* SPDX-License-Identifier: MIT */
/*
 * vfork, and clone like it, for programs whose child allocates: the child must run no section
 * (percpu/register.c).
 *
 * vfork() cannot call libc's: the child returns first, and the functions it then
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
 *
 * clone(2) with the flags that vfork stands for gives the child a stack of its own, so that
 * function can call libc's. A child of clone(2) in memory of its own is one of fork's for the
 * layers, whose functions run around it; libc's handlers of fork do not. Not helped: a child
 * with CLONE_VM whose parent goes on meanwhile (both then use one thread's local memory at
 * once, libc's errno first of all), one in memory of its own for which the parent waits (the
 * layers' locks would be held for so long), and programs that make the system call themselves,
 * or call __clone(), which libc's own threads may come through.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/compiler.h"
#include "kmalloc/kmalloc.h"
#include "layer/layer.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/register.h"
#include "ukmem/compiler.h"

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

typedef int clone_function(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/* Whether the child runs on its parent's thread-local memory while the parent waits. */
static bool is_like_vfork(int flags)
{
	int all = CLONE_VM | CLONE_VFORK | CLONE_SETTLS | CLONE_THREAD;

	return (flags & all) == (CLONE_VM | CLONE_VFORK);
}

/* Whether the child is like fork's: a copy of this thread, in memory of its own. */
static bool is_like_fork(int flags)
{
	return !(flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS | CLONE_THREAD));
}

struct copied {
	int (*fn)(void *);
	void *arg;
};

static int run_copied(void *copy)
{
	const struct copied *c = copy;

	layers_fork_child();
	return c->fn(c->arg);
}

/* The last three arguments need not be there; then libc's function reads them, too, and the
 * system ignores them. */
UKMEM_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	static _Atomic(void *) kept;
	clone_function *next = (clone_function *)next_function("clone", &kept);
	struct copied copied = { fn, arg };
	void *tls, *parent_tid, *child_tid;
	int todo, result, saved;
	va_list list;

	va_start(list, arg);
	parent_tid = va_arg(list, void *);
	tls = va_arg(list, void *);
	child_tid = va_arg(list, void *);
	va_end(list);
	if (!next)
		return next_is_missing();
	if (is_like_fork(flags) && fn && stack) {
		sandbox_find();
		layers_fork_prepare();
		result = next(run_copied, stack, flags, &copied, parent_tid, tls, child_tid);
		saved = errno;
		layers_fork_parent();
		errno = saved;
		return result;
	}
	if (!is_like_vfork(flags))
		return next(fn, stack, flags, arg, parent_tid, tls, child_tid);
	/* Negative: a sandbox forbids the rseq call. Then the call goes on as it would without
	 * the library. */
	todo = vfork_prepare();
	result = next(fn, stack, flags, arg, parent_tid, tls, child_tid);
	return vfork_parent(result < 0 ? -errno : result, todo > 0);
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
	"notrack jmp *%rdi\n\t" /* others may lead to an `endbr64` only */
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
	"ret\n\t" /* other jumps may lead to a `bti j` only */
	FUNCTION_END(vfork)
);

#endif

#endif
