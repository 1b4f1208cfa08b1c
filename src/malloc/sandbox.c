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
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "ukmem/compiler.h"

UKMEM_EXPORT int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list list;

	va_start(list, option);
	for (unsigned int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		os_confine();
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}
