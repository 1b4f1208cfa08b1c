/* SPDX-License-Identifier: MIT */
/*
 * Interposes what a program calls before it locks itself in, because a small process has not
 * read yet what limits it (D8.8).
 *
 * prctl(2) tells that the program is about to install a seccomp filter.
 *
 * A filter may kill the process for a system call, so the library can neither try a call nor
 * ask which are allowed. But a call of prctl() comes before the filter: a process without
 * privileges must renounce new ones first, and libseccomp does so in any case. From then on the
 * library makes only the system calls that malloc() and free() need (os_confine), and
 * malloc_trim() gives back what it can without the others. A process that was started under a
 * filter needs nothing of this: the filter allowed the library's calls at the start, or else
 * the process did not get this far. What a child of vfork confines is not its parent's
 * (os_vfork_begin).
 *
 * prctl(PR_SET_TSC) may forbid a thread to read the processor's time stamp counter, which the
 * vDSO's clock reads. From then on the library asks the system for the time. (A program that is
 * started without the counter does not get this far: glibc's loader reads it.)
 *
 * chroot(2): the files that tell limits are not in the new root.
 *
 * Each call goes on to the next function of that name: libc's, or that of another library that
 * stands before libc's, as fakechroot's.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kmalloc/kmalloc.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "page/pageset.h"
#include "ukmem/compiler.h"

static void know_all(void)
{
	if (kmalloc_init())
		page_know_limits();
}

static _Atomic(void *) next_prctl, next_chroot;

void sandbox_find(void)
{
	next_function("prctl", &next_prctl);
	next_function("chroot", &next_chroot);
}

UKMEM_EXPORT int prctl(int option, ...)
{
	int (*next)(int, ...) = (int (*)(int, ...))next_function("prctl", &next_prctl);
	unsigned long arg[4];
	va_list list;

	va_start(list, option);
	for (unsigned int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
		know_all(); /* a filter may forbid what this does, later */
		os_confine();
	}
	if (option == PR_SET_TSC && (unsigned int)arg[0] == PR_TSC_SIGSEGV)
		os_clock_by_calls();
	return next ? next(option, arg[0], arg[1], arg[2], arg[3]) : next_is_missing();
}

UKMEM_EXPORT int chroot(const char *path)
{
	__typeof__(&chroot) next = (__typeof__(next))next_function("chroot", &next_chroot);

	know_all();
	return next ? next(path) : next_is_missing();
}
