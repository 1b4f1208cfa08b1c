/* SPDX-License-Identifier: MIT */
/*
 * Names are wanted in the handler of SIGSEGV, where the thread may have interrupted anything,
 * and while another thread is in dlopen(), perhaps waiting for this one in a constructor. So
 * dladdr(), which takes the dynamic linker's lock, is for libcs that do not tell the file
 * without a lock. Where they do, the file's table of dynamic symbols is read here.
 */
#include "base/symbol.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "base/code_file.h"
#include "base/program.h"
#include "base/text.h"

enum { FUNCTION_MAX = 100 }; /* bytes of a function's name that are shown */

/* Weak, because statically linked programs lack it. */
extern int dladdr(const void *, Dl_info *) __attribute__((weak));

/* ---- a file's dynamic symbols */

/* Addresses of its tables; 0: it has none. */
struct tables {
	uintptr_t symbols, names, gnu_hash, hash;
	size_t names_size;
};

/* Whether @n bytes at @at lie in the file. */
static bool has(const struct code_file *f, uintptr_t at, size_t n)
{
	uintptr_t from = (uintptr_t)f->start, size = (uintptr_t)f->end - from;

	return at - from <= size && size - (at - from) >= n;
}

/* A pointer of the dynamic section: the dynamic linker has made most of them addresses. */
static uintptr_t address(const struct code_file *f, uintptr_t pointer)
{
	return has(f, pointer, 1) ? pointer : pointer + f->map->l_addr;
}

static void find_tables(const struct code_file *f, struct tables *t)
{
	uintptr_t at = (uintptr_t)f->map->l_ld;

	*t = (struct tables){ 0 };
	for (const ElfW(Dyn) * d; has(f, at, sizeof(*d)); at += sizeof(*d)) {
		d = (const void *)at;
		if (d->d_tag == DT_NULL)
			break;
		if (d->d_tag == DT_SYMTAB)
			t->symbols = address(f, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			t->names = address(f, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRSZ)
			t->names_size = d->d_un.d_val;
		else if (d->d_tag == DT_GNU_HASH)
			t->gnu_hash = address(f, d->d_un.d_ptr);
		else if (d->d_tag == DT_HASH)
			t->hash = address(f, d->d_un.d_ptr);
	}
}

/* The word @i of the table at @at; 0: it is beyond the file. */
static uint32_t word_of(const struct code_file *f, uintptr_t at, size_t i)
{
	at += i * sizeof(uint32_t);
	return has(f, at, sizeof(uint32_t)) ? *(const uint32_t *)at : 0;
}

/*
 * The number of symbols, which stands nowhere if there is the table DT_GNU_HASH alone:
 *
 *	buckets, first symbol, words of the filter, shift | filter | buckets | chains
 *
 * A bucket has the first symbol of its chain. A chain goes on with the next symbol, up to one
 * whose hash has the lowest bit. So the last symbol ends the chain of the highest bucket.
 */
static size_t count_symbols(const struct code_file *f, const struct tables *t)
{
	enum { BUCKETS, FIRST, FILTER, HEAD = 4, NR_CHAINS = 1 };
	const uint32_t buckets = word_of(f, t->gnu_hash, BUCKETS),
		       first = word_of(f, t->gnu_hash, FIRST);
	uintptr_t table = t->gnu_hash + HEAD * sizeof(uint32_t) +
			  word_of(f, t->gnu_hash, FILTER) * sizeof(ElfW(Addr));
	uint32_t last = 0, end;

	if (!t->gnu_hash)
		return t->hash ? word_of(f, t->hash, NR_CHAINS) : 0;
	for (uint32_t i = 0; i < buckets && has(f, table, (i + 1) * sizeof(uint32_t)); i++)
		if (word_of(f, table, i) > last)
			last = word_of(f, table, i);
	if (last < first || !last)
		return 0;
	do
		end = word_of(f, table, (size_t)buckets + last++ - first);
	while (!(end & 1) && has(f, table, ((size_t)buckets + last - first) * sizeof(end)));
	return last;
}

/* The symbol of the code at @addr: of those around it the one that begins last. */
static const ElfW(Sym) *
	find_symbol(const struct code_file *f, const struct tables *t, uintptr_t addr)
{
	const ElfW(Sym) *symbols = (const void *)t->symbols, *found = NULL;
	size_t n = t->symbols && t->names ? count_symbols(f, t) : 0;
	uintptr_t value = addr - f->map->l_addr;

	for (size_t i = 0; i < n && has(f, (uintptr_t)&symbols[i], sizeof(*symbols)); i++) {
		const ElfW(Sym) *s = &symbols[i];

		if (s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS &&
		    ELF64_ST_TYPE(s->st_info) != STT_TLS && s->st_name < t->names_size &&
		    value >= s->st_value &&
		    (value - s->st_value < s->st_size || value == s->st_value) &&
		    (!found || found->st_value < s->st_value))
			found = s;
	}
	return found;
}

/* ---- */

/* By the dynamic linker. */
static bool ask_linker(const void *addr, struct symbol *s)
{
	Dl_info info = { 0 };

	if (!dladdr || !dladdr(addr, &info) || !info.dli_fname)
		return false;
	*s = (struct symbol){
		.function = info.dli_sname,
		.in_function = (size_t)((const char *)addr - (const char *)info.dli_saddr),
		.module = text_last_part(info.dli_fname),
		.in_module = (size_t)((const char *)addr - (const char *)info.dli_fbase),
	};
	return true;
}

/*
 * The program's own file, by its table of program headers, which the kernel tells: libc knows
 * no file of a statically linked program. Linkers place the table right behind the file's
 * header.
 */
static bool find_in_program(uintptr_t addr, struct symbol *s)
{
	const ElfW(Phdr) *part = (const void *)getauxval(AT_PHDR);
	size_t n = getauxval(AT_PHNUM);
	const ElfW(Ehdr) *file = (const void *)((uintptr_t)part - sizeof(*file));
	uintptr_t bias = 0;
	bool found = false;

	/* Otherwise a page that is not there may lie before the table. No page is smaller. */
	if (!part || (uintptr_t)part % 4096 < sizeof(*file) ||
	    memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phoff != sizeof(*file))
		return false;
	for (size_t i = 0; i < n; i++)
		if (part[i].p_type == PT_LOAD && !part[i].p_offset) {
			bias = (uintptr_t)file - part[i].p_vaddr;
			found = true;
		}
	for (size_t i = 0; found && i < n; i++) {
		if (part[i].p_type != PT_LOAD || !(part[i].p_flags & PF_X) ||
		    addr - bias - part[i].p_vaddr >= part[i].p_filesz)
			continue;
		*s = (struct symbol){
			.module = program_name(),
			.in_module = addr - (uintptr_t)file,
		};
		return true;
	}
	return false;
}

bool symbol_find(const void *addr, struct symbol *s)
{
	const ElfW(Sym) * symbol;
	struct code_file f;
	struct tables t;

	if (!code_files_are_known())
		return ask_linker(addr, s) || find_in_program((uintptr_t)addr, s);
	/* Of a statically linked program libc tells where its code begins, not its file. */
	if (!code_file_find(&f, (uintptr_t)addr) || memcmp(f.start, ELFMAG, SELFMAG) != 0)
		return find_in_program((uintptr_t)addr, s);
	find_tables(&f, &t);
	symbol = find_symbol(&f, &t, (uintptr_t)addr);
	*s = (struct symbol){
		/* Of the program itself the dynamic linker has no name. */
		.module = *f.map->l_name ? text_last_part(f.map->l_name) : program_name(),
		.in_module = (uintptr_t)addr - (uintptr_t)f.start,
	};
	if (symbol) {
		s->function = (const char *)t.names + symbol->st_name;
		s->in_function = (uintptr_t)addr - f.map->l_addr - symbol->st_value;
	}
	return true;
}

/* A long line is cut in the function's name, since the module's leads to the file. */
const char *symbol_text(const void *addr, char *buf)
{
	const size_t offset = sizeof("+0x0123456789abcdef ");
	struct symbol s;
	size_t room;
	int n = 0;

	/* Behind a call that does not return, another function may begin. */
	if (!symbol_find((const char *)addr - 1, &s)) {
		snprintf(buf, SYMBOL_TEXT_SIZE, "%p", addr);
		return buf;
	}
	room = SYMBOL_TEXT_SIZE - sizeof("()") - 2 * offset;
	room -= min_size(strlen(s.module), room);
	if (s.function)
		n = snprintf(buf, SYMBOL_TEXT_SIZE, "%.*s+0x%zx ",
			     (int)min_size(room, FUNCTION_MAX), s.function, s.in_function + 1);
	snprintf(buf + n, SYMBOL_TEXT_SIZE - (size_t)n, "(%s+0x%zx)", s.module,
		 s.in_module + 1);
	return buf;
}
