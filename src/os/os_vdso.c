/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: a small library that the kernel maps into every process. It has the kernel's
 * version, and a function that tells the time without a system call.
 *
 * libc's clock_gettime() calls that function. But programs and preloaded libraries may have a
 * clock_gettime() of their own: it may allocate, while the library serves the process' first
 * request, and it may tell another time than the system's (libfaketime does both).
 */
#include "os/os.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/sys_call.h"

/* LINUX_VERSION_CODE out of the note "Linux" among @notes; 0: there is no such note. */
static uint32_t version_in(const char *notes, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)notes;
		size_t name = align_up(note->n_namesz, 4), len = align_up(note->n_descsz, 4);
		const char *text = notes + sizeof(*note);

		if (size - sizeof(*note) < name + len)
			break;
		if (note->n_type == 0 && note->n_namesz == 6 && !memcmp(text, "Linux", 6) &&
		    note->n_descsz == sizeof(uint32_t))
			return *(const uint32_t *)(const void *)(text + name);
		notes += sizeof(*note) + name + len;
		size -= sizeof(*note) + name + len;
	}
	return 0;
}

uint32_t os_vdso_version(void)
{
	const char *vdso = (const char *)getauxval(AT_SYSINFO_EHDR);
	const ElfW(Ehdr) *header = (const void *)vdso;
	const ElfW(Phdr) * part;
	uint32_t version = 0;

	if (!vdso)
		return 0;
	part = (const void *)(vdso + header->e_phoff);
	for (unsigned int i = 0; i < header->e_phnum && !version; i++)
		if (part[i].p_type == PT_NOTE)
			version = version_in(vdso + part[i].p_offset, part[i].p_filesz);
	return version;
}

typedef int clock_function(clockid_t clock, struct timespec *now);

static int clock_by_call(clockid_t clock, struct timespec *now)
{
	return (int)sys_call(SYS_clock_gettime, clock, now);
}

#if (defined(__x86_64__) && !defined(__ILP32__)) || defined(__aarch64__) ||                    \
	(defined(__riscv) && __riscv_xlen == 64)

#ifdef __aarch64__
#define CLOCK_NAME "__kernel_clock_gettime"
#else
#define CLOCK_NAME "__vdso_clock_gettime"
#endif

/* The number of symbols by a table DT_GNU_HASH: of the buckets' last chain, the last one. */
static uint32_t count_symbols(const uint32_t *table)
{
	uint32_t nr_buckets = table[0], first = table[1], last = 0;
	const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
	const uint32_t *chains = buckets + nr_buckets;

	for (uint32_t i = 0; i < nr_buckets; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < first)
		return first;
	while (!(chains[last - first] & 1))
		last++;
	return last + 1;
}

/* The vDSO's function; NULL: there is no vDSO, or it has none. */
static clock_function *find_clock(void)
{
	const char *vdso = (const char *)getauxval(AT_SYSINFO_EHDR), *names = NULL;
	const ElfW(Ehdr) *header = (const void *)vdso;
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) *symbols = NULL;
	const ElfW(Phdr) * part;
	uint32_t nr_symbols = 0;
	bool loaded = false;

	if (!vdso)
		return NULL;
	part = (const void *)(vdso + header->e_phoff);
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		if (part[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(vdso + part[i].p_offset);
		/* So addresses in it are offsets from its first byte. */
		if (part[i].p_type == PT_LOAD && part[i].p_vaddr == part[i].p_offset)
			loaded = true;
	}
	for (; loaded && dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		const void *at = vdso + dynamic->d_un.d_ptr;

		switch (dynamic->d_tag) {
		case DT_STRTAB:
			names = at;
			break;
		case DT_SYMTAB:
			symbols = at;
			break;
		case DT_HASH:
			nr_symbols = ((const uint32_t *)at)[1];
			break;
		case DT_GNU_HASH:
			nr_symbols = count_symbols(at);
			break;
		}
	}
	for (uint32_t i = 0; names && symbols && i < nr_symbols; i++)
		if (symbols[i].st_shndx != SHN_UNDEF &&
		    !strcmp(names + symbols[i].st_name, CLOCK_NAME))
			return (clock_function *)(uintptr_t)(vdso + symbols[i].st_value);
	return NULL;
}

#else

static clock_function *find_clock(void)
{
	return NULL;
}

#endif

/* NULL: not looked for yet. Synchronization: relaxed; all threads find the same one. */
static _Atomic(clock_function *) clock_used;

int os_clock(clockid_t clock, struct timespec *now)
{
	clock_function *function = atomic_load_explicit(&clock_used, memory_order_relaxed);

	if (unlikely(!function)) {
		clock_function *found = find_clock();

		if (!found)
			found = clock_by_call;
		/* Another thread may have set one by now, perhaps os_clock_by_calls(). */
		if (atomic_compare_exchange_strong_explicit(&clock_used, &function, found,
							    memory_order_relaxed,
							    memory_order_relaxed))
			function = found;
	}
	return function(clock, now);
}

void os_clock_by_calls(void)
{
	atomic_store_explicit(&clock_used, clock_by_call, memory_order_relaxed);
}
