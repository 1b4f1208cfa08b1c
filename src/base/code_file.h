/* SPDX-License-Identifier: MIT */
/*
 * Which file, the program or one of its libraries, an address of code is of. glibc tells since
 * 2.35, without a lock, so that any code may ask: in a signal handler, and with any lock held.
 */
#ifndef BASE_CODE_FILE_H
#define BASE_CODE_FILE_H

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* The beginning of libc's structure, and room for what it may have behind that. libc's headers
 * may be older than the libc that is there. */
struct code_file {
	unsigned long long flags;
	void *start, *end; /* of the file, as it is mapped */
	struct link_map *map;
	void *unused[12];
};

struct dl_find_object;
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

/* Whether code_file_find() can tell. */
static inline bool code_files_are_known(void)
{
	return _dl_find_object != NULL;
}

/* False: @pc is of no file, or libc does not tell. */
static inline bool code_file_find(struct code_file *f, uintptr_t pc)
{
	return _dl_find_object &&
	       !_dl_find_object((void *)pc, (struct dl_find_object *)(void *)f);
}

#endif
