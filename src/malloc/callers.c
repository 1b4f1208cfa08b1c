/* SPDX-License-Identifier: MIT */
/*
 * Tells whether a request comes from libc itself.
 *
 * libc allocates and frees while it holds locks of its own, and creating a thread takes some of
 * them, too: for instance, glibc empties its cache of stacks under the lock of that cache. So a
 * request of libc must not create the background thread. When the program makes a request, libc
 * holds no such lock: where libc calls the program back under a lock (dl_iterate_phdr),
 * creating a thread does not take that lock.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text.h"
#include "malloc/malloc_internal.h"

/* The beginnings of file names of libc and the dynamic linker. */
static const char *const names[] = { "libc.", "libc-", "libpthread", "ld-", "ld.", "ld64." };

struct code {
	uintptr_t start;
	size_t size;
};

/* Synchronization: the constructor writes them, nr_codes last, with release. */
static struct code codes[8] written_anyway;
static unsigned int nr_codes written_anyway;

static bool is_libc(const char *path)
{
	const char *name = text_last_part(path);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (text_same(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *nr_noted)
{
	unsigned int *nr = nr_noted;

	(void)size;
	if (!info->dlpi_name || !is_libc(info->dlpi_name))
		return 0;
	for (unsigned int i = 0; i < info->dlpi_phnum && *nr < ARRAY_SIZE(codes); i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && (h->p_flags & PF_X))
			codes[(*nr)++] =
				(struct code){ info->dlpi_addr + h->p_vaddr, h->p_memsz };
	}
	return 0;
}

void callers_init(void)
{
	unsigned int nr = 0;

	dl_iterate_phdr(note_object, &nr);
	__atomic_store_n(&nr_codes, nr, __ATOMIC_RELEASE);
}

bool caller_is_libc(const void *caller)
{
	unsigned int nr = __atomic_load_n(&nr_codes, __ATOMIC_ACQUIRE);

	for (unsigned int i = 0; i < nr; i++)
		if ((uintptr_t)caller - codes[i].start < codes[i].size)
			return true;
	return !nr;
}
