/* SPDX-License-Identifier: MIT */
/* A library that stands before libc's functions and behind the drop-in's (behind_test.c). */
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "behind.h"

int chroot(const char *path)
{
	return BEHIND_CHROOT + (path[0] == '/');
}

int prctl(int option, ...)
{
	unsigned long sum = (unsigned long)option;
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		sum += va_arg(list, unsigned long);
	va_end(list);
	return BEHIND_PRCTL + (int)sum;
}
