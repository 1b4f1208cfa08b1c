/* SPDX-License-Identifier: MIT */
/*
 * Reads what unwind tables say of one return address, as a rule for unwind.c. The format is
 * that of .eh_frame (Linux Standard Base): a sorted table leads to the entry of a function,
 * whose instructions are run up to that address. Tables that are damaged lead nowhere outside
 * of their file, as it is mapped, nor to pages of it that cannot be read.
 */
#include "base/unwind_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/stack_word.h"
#include "base/text.h"

#if defined(__x86_64__) && defined(__LP64__)

/* Registers by their numbers in unwind tables. */
enum { REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };

/* Bytes that are read one after the other; @bad: beyond the end, or of an unknown form. */
struct reader {
	const unsigned char *at, *end;
	bool bad;
};

static uint64_t read_fixed(struct reader *r, size_t n)
{
	uint64_t value = 0;

	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		return 0;
	}
	memcpy(&value, r->at, n); /* both are little-endian */
	r->at += n;
	return value;
}

/* The bits of a number in groups of seven, the lowest first. *@read: how many bits; the highest
 * of them is the sign of a signed number. */
static uint64_t read_groups(struct reader *r, unsigned int *read)
{
	uint64_t value = 0, byte;

	*read = 0;
	do {
		byte = read_fixed(r, 1);
		if (*read < 64)
			value |= (byte & 0x7f) << *read;
		*read += 7;
	} while (byte & 0x80);
	return value;
}

static uint64_t read_uleb(struct reader *r)
{
	unsigned int bits;

	return read_groups(r, &bits);
}

static int64_t read_sleb(struct reader *r)
{
	unsigned int bits;
	uint64_t value = read_groups(r, &bits);

	if (bits < 64 && value >> (bits - 1))
		value |= ~(uint64_t)0 << bits;
	return (int64_t)value;
}

static void skip(struct reader *r, uint64_t n)
{
	if (n > (size_t)(r->end - r->at))
		r->bad = true;
	else
		r->at += n;
}

/* Whether @n bytes at @at lie in the file. */
static bool has(const struct unwind_file *f, uintptr_t at, size_t n)
{
	uintptr_t from = (uintptr_t)f->from, size = (uintptr_t)f->to - from;

	return at - from <= size && size - (at - from) >= n;
}

/* Whether they can be read, too: between its parts a file may be mapped with no access. */
static bool is_there(const struct unwind_file *f, uintptr_t at, size_t n)
{
	if (!has(f, at, n))
		return false;
	/* Pages have 4 KiB or more. */
	for (uintptr_t page = at & ~(uintptr_t)4095; page < at + n; page += 4096)
		if (!is_readable(page))
			return false;
	return true;
}

/* What a number of four bytes at @p leads to, from @base on. */
static uintptr_t relative(uintptr_t base, const unsigned char *p)
{
	int32_t way;

	memcpy(&way, p, sizeof(way));
	return base + (uintptr_t)(intptr_t)way;
}

/* An entry of a table, without its length: [at, end). False: none, or of a rare form. */
static bool open_entry(struct reader *r, const struct unwind_file *f, uintptr_t entry)
{
	enum { LENGTH_MAX = 1 << 16 };
	uint32_t length;

	if (!is_there(f, entry, sizeof(length)))
		return false;
	memcpy(&length, (const void *)entry, sizeof(length));
	entry += sizeof(length);
	if (!length || length > LENGTH_MAX || !is_there(f, entry, length))
		return false;
	*r = (struct reader){ (const void *)entry, (const void *)(entry + length), false };
	return true;
}

enum { ENC_UDATA4 = 0x03, ENC_PCREL_SDATA4 = 0x1b, ENC_DATAREL_SDATA4 = 0x3b };

/* The entry of the function with the code at @pc, by the file's sorted table; 0: none. */
static uintptr_t find_entry(const struct unwind_file *f, uintptr_t pc)
{
	enum { HEAD = 12, ROW = 8 };
	const unsigned char *head = f->head;
	uintptr_t at = (uintptr_t)head;
	uint32_t low = 0, high;

	if (!is_there(f, at, HEAD) || head[0] != 1 || head[1] != ENC_PCREL_SDATA4 ||
	    head[2] != ENC_UDATA4 || head[3] != ENC_DATAREL_SDATA4)
		return 0;
	memcpy(&high, head + 8, sizeof(high));
	if (!has(f, at + HEAD, high * (size_t)ROW))
		return 0;
	/* The last row that begins at @pc or before it is in [low, high). */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const unsigned char *row = head + HEAD + middle * (size_t)ROW;

		if (!is_there(f, (uintptr_t)row, ROW))
			return 0;
		if (relative(at, row) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? relative(at, head + HEAD + (low - 1) * (size_t)ROW + 4) : 0;
}

/* What the unwind instructions have said until now. */
enum where { UNCHANGED, SAVED, NOWHERE, ELSEWHERE };

struct row {
	uint64_t cfa_reg;
	int64_t cfa;	    /* bytes from the register */
	bool complex;	    /* the cfa is not of that kind */
	enum where rbp, ra; /* UNCHANGED: of @ra: not said */
	int64_t rbp_at, ra_at;
};

struct program {
	const struct unwind_file *file;
	struct reader r;
	uintptr_t at, pc; /* of the code: reached; wanted */
	uint64_t code_align;
	int64_t data_align;
	struct row now, initial, stack[4];
	unsigned int depth;
};

static void set_saved(struct program *p, uint64_t reg, enum where where, int64_t at)
{
	if (reg == REG_RBP) {
		p->now.rbp = where;
		p->now.rbp_at = at;
	} else if (reg == REG_RA) {
		p->now.ra = where;
		p->now.ra_at = at;
	} else if (reg == REG_RSP) {
		p->now.complex = true;
	}
}

/* A distance in the units of the tables. Of a wrong one nothing is expected. */
static int64_t scaled(const struct program *p, uint64_t n)
{
	return (int64_t)(n * (uint64_t)p->data_align);
}

static void restore(struct program *p, uint64_t reg)
{
	if (reg == REG_RBP)
		set_saved(p, reg, p->initial.rbp, p->initial.rbp_at);
	else
		set_saved(p, reg, p->initial.ra, p->initial.ra_at);
}

static void set_cfa(struct program *p, uint64_t reg, int64_t at)
{
	p->now.cfa_reg = reg;
	p->now.cfa = at;
	p->now.complex = false;
}

/*
 * Instructions of unwind tables, by their names in the DWARF standard. The first three have
 * their number in the upper two bits and an operand below; the others have it in all bits.
 */
enum {
	DW_CFA_advance_loc = 0x40,
	DW_CFA_offset = 0x80,
	DW_CFA_restore = 0xc0,
	HIGH_BITS = 0xc0,
	LOW_BITS = 0x3f,

	DW_CFA_nop = 0x00,
	DW_CFA_advance_loc1 = 0x02,
	DW_CFA_advance_loc2 = 0x03,
	DW_CFA_advance_loc4 = 0x04,
	DW_CFA_offset_extended = 0x05,
	DW_CFA_restore_extended = 0x06,
	DW_CFA_undefined = 0x07,
	DW_CFA_same_value = 0x08,
	DW_CFA_register = 0x09,
	DW_CFA_remember_state = 0x0a,
	DW_CFA_restore_state = 0x0b,
	DW_CFA_def_cfa = 0x0c,
	DW_CFA_def_cfa_register = 0x0d,
	DW_CFA_def_cfa_offset = 0x0e,
	DW_CFA_def_cfa_expression = 0x0f,
	DW_CFA_expression = 0x10,
	DW_CFA_offset_extended_sf = 0x11,
	DW_CFA_val_offset = 0x14,
	DW_CFA_val_offset_sf = 0x15,
	DW_CFA_val_expression = 0x16,
	DW_CFA_GNU_args_size = 0x2e,
};

/* The rows that follow are of code @n units further on. */
static void advance(struct program *p, uint64_t n)
{
	p->at += n * p->code_align;
}

/* A function with a return in its middle remembers the row of its body before the epilogue,
 * and restores it behind the return. */
static void remember_state(struct program *p)
{
	if (p->depth == ARRAY_SIZE(p->stack))
		p->r.bad = true;
	else
		p->stack[p->depth++] = p->now;
}

static void restore_state(struct program *p)
{
	if (!p->depth)
		p->r.bad = true;
	else
		p->now = p->stack[--p->depth];
}

/* Instructions that say where the frame ends. False: @instruction is none of them. */
static bool run_cfa(struct program *p, unsigned int instruction)
{
	struct reader *r = &p->r;
	uint64_t reg;

	switch (instruction) {
	case DW_CFA_def_cfa:
		reg = read_uleb(r);
		set_cfa(p, reg, (int64_t)read_uleb(r));
		return true;
	case DW_CFA_def_cfa_register:
		p->now.cfa_reg = read_uleb(r);
		return true;
	case DW_CFA_def_cfa_offset:
		p->now.cfa = (int64_t)read_uleb(r);
		return true;
	case DW_CFA_def_cfa_expression:
		p->now.complex = true;
		skip(r, read_uleb(r));
		return true;
	default:
		return false;
	}
}

/* Instructions that say where the caller's value of a register is. False: @instruction is none
 * of them. */
static bool run_register(struct program *p, unsigned int instruction)
{
	struct reader *r = &p->r;
	uint64_t reg;

	switch (instruction) {
	case DW_CFA_offset_extended:
		reg = read_uleb(r);
		set_saved(p, reg, SAVED, scaled(p, read_uleb(r)));
		return true;
	case DW_CFA_offset_extended_sf:
		reg = read_uleb(r);
		set_saved(p, reg, SAVED, scaled(p, (uint64_t)read_sleb(r)));
		return true;
	case DW_CFA_restore_extended:
		restore(p, read_uleb(r));
		return true;
	case DW_CFA_undefined:
		set_saved(p, read_uleb(r), NOWHERE, 0);
		return true;
	case DW_CFA_same_value:
		set_saved(p, read_uleb(r), UNCHANGED, 0);
		return true;
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		set_saved(p, read_uleb(r), ELSEWHERE, 0);
		read_uleb(r);
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		set_saved(p, read_uleb(r), ELSEWHERE, 0);
		skip(r, read_uleb(r));
		return true;
	default:
		return false;
	}
}

/* Instructions that have their number in all bits. */
static void run_long(struct program *p, unsigned int instruction)
{
	struct reader *r = &p->r;

	switch (instruction) {
	case DW_CFA_nop:
		break;
	case DW_CFA_advance_loc1:
		advance(p, read_fixed(r, 1));
		break;
	case DW_CFA_advance_loc2:
		advance(p, read_fixed(r, 2));
		break;
	case DW_CFA_advance_loc4:
		advance(p, read_fixed(r, 4));
		break;
	case DW_CFA_remember_state:
		remember_state(p);
		break;
	case DW_CFA_restore_state:
		restore_state(p);
		break;
	case DW_CFA_GNU_args_size:
		read_uleb(r);
		break;
	default:
		if (!run_cfa(p, instruction) && !run_register(p, instruction))
			r->bad = true;
	}
}

/* Runs instructions until those for the wanted address are done. */
static void run(struct program *p)
{
	while (!p->r.bad && p->r.at < p->r.end && p->at <= p->pc) {
		unsigned int byte = (unsigned int)read_fixed(&p->r, 1);
		unsigned int operand = byte & LOW_BITS;

		switch (byte & HIGH_BITS) {
		case DW_CFA_advance_loc:
			advance(p, operand);
			break;
		case DW_CFA_offset:
			set_saved(p, operand, SAVED, scaled(p, read_uleb(&p->r)));
			break;
		case DW_CFA_restore:
			restore(p, operand);
			break;
		default:
			run_long(p, byte);
		}
	}
}

/* What all functions of a compilation have in common (CIE). */
static bool run_common(struct program *p, uintptr_t entry)
{
	struct reader *r = &p->r;
	const char *letters;
	uint64_t version;

	if (!open_entry(r, p->file, entry) || read_fixed(r, 4))
		return false;
	version = read_fixed(r, 1);
	letters = (const char *)r->at;
	skip(r, text_length(letters, (size_t)(r->end - r->at)) + 1);
	/* 'S' is for frames of signals; without 'z' and 'R' there is no encoding. */
	if (r->bad || letters[0] != 'z' || text_find(letters, 'S') ||
	    (version != 1 && version != 3))
		return false;
	p->code_align = read_uleb(r);
	p->data_align = read_sleb(r);
	if ((version == 1 ? read_fixed(r, 1) : read_uleb(r)) != REG_RA)
		return false;
	read_uleb(r);
	for (const char *c = letters + 1; *c && !r->bad; c++)
		if (*c == 'R')
			r->bad |= read_fixed(r, 1) != ENC_PCREL_SDATA4;
		else if (*c == 'L')
			read_fixed(r, 1);
		else if (*c == 'P') /* a pointer of 4 or 8 bytes */
			skip(r, (read_fixed(r, 1) & 7) == 3 ? 4 : 8);
		else
			r->bad = true;
	run(p);
	return !r->bad;
}

static struct rule rule_of(const struct row *row)
{
	struct rule r = { .kind = RULE_COMPLEX };
	int64_t cfa = row->cfa / WORD, rbp = row->rbp == SAVED ? -(row->rbp_at / WORD) : 0;

	if (row->ra == NOWHERE)
		return (struct rule){ .kind = RULE_LAST };
	if (row->complex || row->ra != SAVED || row->ra_at != -WORD || row->cfa % WORD ||
	    cfa < 0 || cfa >= 1 << CFA_BITS || (row->rbp != SAVED && row->rbp != UNCHANGED) ||
	    (row->rbp == SAVED && (row->rbp_at % WORD || rbp <= 0 || rbp >= 1 << RBP_BITS)))
		return r;
	if (row->cfa_reg == REG_RSP)
		r.kind = RULE_SP;
	else if (row->cfa_reg == REG_RBP)
		r.kind = RULE_RBP;
	r.cfa = (unsigned int)cfa;
	r.rbp = (unsigned int)rbp;
	return r;
}

noinline struct rule unwind_read_rule(const struct unwind_file *f, uintptr_t pc)
{
	const struct rule complex = { .kind = RULE_COMPLEX };
	struct program p = { .file = f, .pc = pc - 1 };
	uintptr_t entry = find_entry(f, pc - 1), common, begin;
	struct reader r;
	uint64_t size;

	if (!entry || !open_entry(&r, f, entry))
		return complex;
	common = (uintptr_t)r.at;
	common -= read_fixed(&r, 4);
	begin = (uintptr_t)r.at;
	begin += (uintptr_t)(intptr_t)(int32_t)read_fixed(&r, 4);
	size = read_fixed(&r, 4);
	if (r.bad || pc - 1 - begin >= size || !run_common(&p, common))
		return complex;
	skip(&r, read_uleb(&r));
	p.initial = p.now;
	p.r = r;
	p.at = begin;
	run(&p);
	return p.r.bad ? complex : rule_of(&p.now);
}

#else

struct rule unwind_read_rule(const struct unwind_file *f, uintptr_t pc)
{
	(void)f, (void)pc;
	return (struct rule){ .kind = RULE_COMPLEX };
}

#endif
