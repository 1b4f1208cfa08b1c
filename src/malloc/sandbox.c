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
 * the process did not get this far.
 *
 * chroot(2): the files that tell limits are not in the new root.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/sys_call.h"
#include "kmalloc/kmalloc.h"
#include "os/os.h"
#include "page/pageset.h"
#include "ukmem/compiler.h"

static void know_all(void)
{
	if (kmalloc_init())
		page_know_limits();
}

UKMEM_EXPORT int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list list;
	int result;

	va_start(list, option);
	for (unsigned int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
		know_all(); /* a filter may forbid what this does, later */
		os_confine();
	}
	result = os_prctl(option, arg);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

UKMEM_EXPORT int chroot(const char *path)
{
	int result;

	know_all();
	result = (int)sys_call(SYS_chroot, path);
	if (!result)
		return 0;
	errno = -result;
	return -1;
}
