/* SPDX-License-Identifier: MIT */
/*
 * The compiler's unwinder reads a program of unwind instructions for each frame of each stack,
 * 100 ns a frame. What it finds there depends on the return address alone: where the frame
 * ends, and whether it saved the frame pointer. So this walk reads it once for each return
 * address, and keeps it as a rule, a word:
 *
 *	   low addresses						 high
 *   | frame of the callee | return address | this frame ...  rbp | return address | ...
 *					    ^sp			   end of frame = cfa^
 *
 *	cfa = sp or rbp, plus a number		return address: below the cfa
 *	rbp of the caller: unchanged, or saved at a distance below the cfa
 *
 * Nearly all functions are of these two kinds (unwind_rule.c). What is not (frames of signals,
 * code written in assembly, realigned stacks, code without unwind tables) ends the walk, and
 * the compiler's unwinder does it all.
 *
 * The table of rules has no lock. A rule and its key are two words that are read and written on
 * their own: the second is the first one combined with the key, so words of two rules make
 * none.
 *
 * A library may be unloaded and another one may lie at its addresses. So a rule's key has the
 * identity of the file that the code is of: where libc has mapped it, and eight bytes of its
 * build ID. Most frames are of the same file as the frame before, so a walk asks libc a few
 * times. Two files without a build ID may have the same identity, and an old rule leads
 * anywhere then. So each page of the stack is tested before it is read, and a word that is no
 * return address, with unwind tables of its own, ends the walk.
 */
#include "base/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/stack_word.h"
#include "base/unwind_rule.h"

#if defined(__x86_64__) && defined(__LP64__)
#include <dlfcn.h>
#include <elf.h>
#endif

/* Since glibc 2.35. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
#pragma weak _dl_find_object

/* ---- rules */

enum { RULES = 4096, FILES = 64, WALKS_BETWEEN = 256 };

/* Synchronization: relaxed; see above. */
struct kept_rule {
	_Atomic uint64_t rule, sum;
};

/*
 * The walk keeps the rules that it has read, and for each file where its build ID is: @ids has
 * a hash of the place where the file is mapped, with the distance of the build ID from the
 * file's first byte in the low bits; a distance of 0 says that the file has no build ID close
 * to its first byte.
 * Synchronization: relaxed.
 */
struct kept {
	struct kept_rule rules[RULES];
	_Atomic uint64_t ids[FILES];
};

/* Synchronization: relaxed: nothing was written to the memory before. */
static _Atomic(struct kept *) memory_of_rules;

size_t unwind_bytes(void)
{
	return sizeof(struct kept);
}

void unwind_begin(void *memory)
{
	atomic_store_explicit(&memory_of_rules, memory, memory_order_relaxed);
}

static uint64_t pack(struct rule r)
{
	return (uint64_t)r.cfa << (KIND_BITS + RBP_BITS) | (uint64_t)r.rbp << KIND_BITS |
	       r.kind;
}

static struct rule unpack(uint64_t word)
{
	return (struct rule){
		.kind = word & ((1 << KIND_BITS) - 1),
		.rbp = word >> KIND_BITS & ((1 << RBP_BITS) - 1),
		.cfa = (unsigned int)(word >> (KIND_BITS + RBP_BITS)),
	};
}

static uint64_t mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15;
	return x ^ x >> 32;
}

/* ---- files: the program and its libraries */

struct file {
	uintptr_t start, size; /* addresses */
	uint64_t identity;
	const void *tables; /* .eh_frame_hdr; NULL: none */
};

enum { HEAD_BYTES = 4096 }; /* of a file, which are mapped if its first byte is */

/* How far the build ID is from the first byte of a file; 0: it has none close to that. */
static noinline uint64_t find_id(const struct file *f)
{
	const char *head = (const char *)f->start;
	Elf64_Ehdr elf;
	Elf64_Phdr part;
	Elf64_Nhdr note;

	if (f->size < HEAD_BYTES || f->start % HEAD_BYTES || !is_readable(f->start))
		return 0;
	memcpy(&elf, head, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_phentsize != sizeof(part) ||
	    elf.e_phoff > HEAD_BYTES || elf.e_phnum > (HEAD_BYTES - elf.e_phoff) / sizeof(part))
		return 0;
	for (size_t i = 0; i < elf.e_phnum; i++) {
		memcpy(&part, head + elf.e_phoff + i * sizeof(part), sizeof(part));
		if (part.p_type != PT_NOTE || part.p_offset > HEAD_BYTES ||
		    part.p_filesz > HEAD_BYTES - part.p_offset)
			continue;
		for (size_t at = part.p_offset, end = at + part.p_filesz;
		     at + sizeof(note) < end;) {
			size_t id = at + sizeof(note);

			memcpy(&note, head + at, sizeof(note));
			if (note.n_namesz > HEAD_BYTES || note.n_descsz > HEAD_BYTES)
				break;
			id += align_up(note.n_namesz, 4);
			if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz >= WORD &&
			    id + WORD <= end && !memcmp(head + id - 4, "GNU", 4))
				return id;
			at = id + align_up(note.n_descsz, 4);
		}
	}
	return 0;
}

/* Finds the file that the code at @pc is of; else the code stands for itself. */
static noinline void find_file(struct kept *kept, struct file *f, uintptr_t pc)
{
	struct dl_find_object object;
	uint64_t hash, id, word;

	if (!_dl_find_object || _dl_find_object((void *)pc, &object)) {
		*f = (struct file){ .start = pc, .size = 1 };
		return;
	}
	f->start = (uintptr_t)object.dlfo_map_start;
	f->size = (uintptr_t)object.dlfo_map_end - f->start;
	f->tables = object.dlfo_eh_frame;
	hash = mix(f->start ^ mix(f->size ^ mix((uintptr_t)object.dlfo_link_map ^
						mix((uintptr_t)f->tables))));
	id = atomic_load_explicit(&kept->ids[hash % FILES], memory_order_relaxed);
	if (unlikely((id ^ hash) / HEAD_BYTES)) {
		id = hash / HEAD_BYTES * HEAD_BYTES + find_id(f);
		atomic_store_explicit(&kept->ids[hash % FILES], id, memory_order_relaxed);
	}
	id %= HEAD_BYTES;
	f->identity = hash;
	if (likely(id)) {
		memcpy(&word, (const char *)f->start + id, sizeof(word));
		f->identity ^= mix(word);
	}
}

/* ---- the walk */

/* @f: the file of the frame before; becomes that of @pc. */
static struct rule find_rule(struct kept *kept, struct file *f, uintptr_t pc, bool anew)
{
	uint64_t key, rule, sum;
	struct kept_rule *at;
	struct rule r;

	if (pc - 1 - f->start >= f->size)
		find_file(kept, f, pc - 1);
	key = mix(pc ^ f->identity);
	at = &kept->rules[key % RULES];
	rule = atomic_load_explicit(&at->rule, memory_order_relaxed);
	sum = atomic_load_explicit(&at->sum, memory_order_relaxed);
	if (likely((rule ^ sum) == key && rule && !anew))
		return unpack(rule);
	r = unwind_read_rule(&(struct unwind_file){ f->tables, (const void *)f->start,
						    (const void *)(f->start + f->size) },
			     pc);
	rule = pack(r);
	atomic_store_explicit(&at->rule, rule, memory_order_relaxed);
	atomic_store_explicit(&at->sum, rule ^ key, memory_order_relaxed);
	return r;
}

struct walk {
	uintptr_t sp, rbp; /* of the frame that is looked at */
	uintptr_t tested;  /* a page that can be read */
};

/* Reads a word of the stack. False: it is not there. */
static bool load(struct walk *w, uintptr_t at, uintptr_t *value)
{
	/* Pages have 4 KiB or more. */
	if (unlikely((at ^ w->tested) >> 12)) {
		if (!is_readable(at))
			return false;
		w->tested = at;
	}
	*value = word_at(at);
	return true;
}

/* Whether this walk reads its rules anew. Threads may count less than there are. */
static bool is_one_of_many(void)
{
	static atomic_uint walks;
	unsigned int n = atomic_load_explicit(&walks, memory_order_relaxed);

	atomic_store_explicit(&walks, n + 1, memory_order_relaxed);
	return n % WALKS_BETWEEN == 0;
}

/* Whether the bytes at @pc can be read. Where there are no unwind tables, the compiler's
 * unwinder compares them with those of a signal frame. */
static bool is_mapped(uintptr_t pc)
{
	enum { COMPARED = 9 };

	return is_readable(pc / WORD * WORD) && is_readable((pc + COMPARED) / WORD * WORD);
}

/* From a frame to its caller's, whose return address is *@pc, that of the frame before. Result:
 * UNWIND_WHOLE: it is known. */
static enum unwind_end step(struct walk *w, struct rule r, uintptr_t *pc)
{
	uintptr_t cfa = (r.kind == RULE_SP ? w->sp : w->rbp) + r.cfa * (uintptr_t)WORD;

	if (unlikely(r.kind == RULE_COMPLEX))
		return is_mapped(*pc) ? UNWIND_COMPLEX : UNWIND_LOST;
	if (unlikely(cfa % WORD || !load(w, cfa - WORD, pc) ||
		     (r.rbp && !load(w, cfa - r.rbp * (uintptr_t)WORD, &w->rbp))))
		return UNWIND_LOST;
	if (unlikely(cfa <= w->sp))
		return UNWIND_COMPLEX;
	w->sp = cfa;
	return UNWIND_WHOLE;
}

noinline unsigned int unwind_stack(uintptr_t *pc, unsigned int most, uintptr_t caller,
				   enum unwind_end *end)
{
	/* This function's frame: the caller's rbp, the return address. */
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct walk w = { .sp = frame + (uintptr_t)2 * WORD,
			  .rbp = word_at(frame),
			  .tested = frame };
	uintptr_t at = word_at(frame + WORD);
	struct kept *kept = atomic_load_explicit(&memory_of_rules, memory_order_relaxed);
	struct file f = { .size = 0 };
	bool anew = is_one_of_many(), reached = false;
	unsigned int n = 0;

	*end = UNWIND_COMPLEX;
	/* On valgrind no word can be looked at before it is read (is_readable()). */
	if (!kept || valgrind_runs())
		return 0;
	for (;;) {
		struct rule r = find_rule(kept, &f, at, anew);

		if (at == caller) {
			n = 0;
			reached = true;
		}
		if (n == most)
			break;
		pc[n++] = at;
		if (r.kind == RULE_LAST)
			break;
		*end = step(&w, r, &at);
		if (*end != UNWIND_WHOLE)
			return reached ? n : 0;
		if (!at)
			break;
	}
	*end = UNWIND_WHOLE;
	return n;
}

#else

size_t unwind_bytes(void)
{
	return 0;
}

void unwind_begin(void *memory)
{
	(void)memory;
}

unsigned int unwind_stack(uintptr_t *pc, unsigned int most, uintptr_t caller,
			  enum unwind_end *end)
{
	(void)pc, (void)most, (void)caller;
	*end = UNWIND_COMPLEX;
	return 0;
}

#endif
