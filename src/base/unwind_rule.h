/* SPDX-License-Identifier: MIT */
/* From a frame to its caller's, by unwind tables; see unwind_rule.c. On x86-64; elsewhere each
 * is RULE_COMPLEX. */
#ifndef BASE_UNWIND_RULE_H
#define BASE_UNWIND_RULE_H

#include <stdint.h>

enum { WORD = sizeof(uintptr_t), KIND_BITS = 3, RBP_BITS = 16, CFA_BITS = 24 };

enum rule_kind {
	RULE_NONE,    /* not known */
	RULE_SP,      /* the frame ends at a distance from the stack pointer */
	RULE_RBP,     /* from the frame pointer */
	RULE_LAST,    /* the outermost frame */
	RULE_COMPLEX, /* another unwinder has to do it */
};

struct rule {
	enum rule_kind kind;
	unsigned int cfa; /* words from the register */
	unsigned int rbp; /* saved so many words below the cfa; 0: unchanged */
};

/* A file with unwind tables, mapped at [from, to); @head: its sorted table (.eh_frame_hdr),
 * NULL: it has none. */
struct unwind_file {
	const void *head, *from, *to;
};

/* The rule for the return address @pc: that of the call in front of it. RULE_COMPLEX: the
 * tables of @f have none of these kinds. */
struct rule unwind_read_rule(const struct unwind_file *f, uintptr_t pc);

#endif
