/* SPDX-License-Identifier: MIT */
/*
 * clone(2) for a child that shares its parent's memory while the parent waits for it, as a
 * child of vfork does: it runs on its parent's thread-local memory, too, and may allocate, so
 * it must run no section (percpu/register.c). The child has a stack of its own; so, unlike
 * vfork(), this can be a function in C.
 *
 * Not helped: a child with CLONE_VM whose parent goes on meanwhile. Both then use one thread's
 * local memory at once, libc's errno first of all. And programs that make the system call
 * themselves.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "kmalloc/kmalloc.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/register.h"
#include "ukmem/compiler.h"

#if UKMEM_HAVE_RSEQ

typedef int clone_function(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/* Whether the child runs on its parent's thread-local memory while the parent waits. */
static bool is_like_vfork(int flags)
{
	int all = CLONE_VM | CLONE_VFORK | CLONE_SETTLS | CLONE_THREAD;

	return (flags & all) == (CLONE_VM | CLONE_VFORK);
}

/* The last three arguments need not be there; then libc's function reads them, too, and the
 * system ignores them. */
UKMEM_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	static _Atomic(void *) kept;
	clone_function *next = (clone_function *)next_function("clone", &kept);
	bool waits = is_like_vfork(flags);
	void *tls, *parent_tid, *child_tid;
	va_list list;
	int todo = 0, result;

	va_start(list, arg);
	parent_tid = va_arg(list, void *);
	tls = va_arg(list, void *);
	child_tid = va_arg(list, void *);
	va_end(list);
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	if (waits) {
		os_vfork_begin();
		/* As in vfork_prepare(). Where a sandbox forbids the rseq call (negative), the
		 * call goes on as it would without the library. */
		todo = kmalloc_init() ? pcpu_registration_suspend() : 0;
	}
	result = next(fn, stack, flags, arg, parent_tid, tls, child_tid);
	if (waits) {
		int error = errno;

		if (todo > 0)
			pcpu_registration_resume();
		os_vfork_end();
		errno = error;
	}
	return result;
}

#endif
