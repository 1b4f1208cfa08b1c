/* SPDX-License-Identifier: MIT */
/*
 * witness.so - proof of which malloc a process runs on.
 *
 * Preloaded in front of the library under test. In every process of a test it
 * appends one line to the file named by UKMEM_WITNESS:
 *
 *	<object that malloc resolves to> TAB <size of glibc's rseq area> TAB <program>
 *
 * So a driver such as gcc and the compiler it starts leave a line each. It
 * defines no symbols and allocates nothing. RTLD_NEXT, because RTLD_DEFAULT gives
 * the address of a PLT entry in programs that are not position-independent.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void testify(void)
{
	const char *path = getenv("UKMEM_WITNESS");
	if (!path)
		return;

	Dl_info malloc_home;
	if (!dladdr(dlsym(RTLD_NEXT, "malloc"), &malloc_home))
		return;

	const unsigned int *rseq_size = dlsym(RTLD_DEFAULT, "__rseq_size");
	char program[1024];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[len < 0 ? 0 : len] = '\0';

	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* One write, so that lines of concurrent processes do not mix. */
	char line[4096];
	int used = snprintf(line, sizeof(line), "%s\t%u\t%s\n", malloc_home.dli_fname,
			    rseq_size ? *rseq_size : 0u, program);
	if (used < 0 || write(fd, line, (size_t)used) != used)
		_exit(125);
	close(fd);
}
