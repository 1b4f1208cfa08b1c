/* SPDX-License-Identifier: MIT */
/*
 * prctl(2), interposed: the program may be about to lock itself in.
 *
 * A seccomp filter that kills cannot be found out by trying, nor asked about, since asking may
 * be killed for too. But before it comes a call of prctl(): without privileges a process must
 * renounce new ones, and libseccomp does so in any case. From then on the library gets by on
 * the system calls that malloc() and free() need (os_confine), and malloc_trim() gives back
 * what it can without the others. A process that was started in a filter is not concerned:
 * what this allows it allowed at the start, or the process had not come this far.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "os/os.h"
#include "ukmem/compiler.h"

UKMEM_EXPORT int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list list;
	int result;

	va_start(list, option);
	for (unsigned int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		os_confine();
	result = os_prctl(option, arg);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}
