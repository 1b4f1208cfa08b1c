/* SPDX-License-Identifier: MIT */
/* What the program calls a place in its code. */
#ifndef BASE_SYMBOL_H
#define BASE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

struct symbol {
	const char *function; /* NULL: not known */
	size_t in_function;   /* bytes from its beginning */
	const char *module;   /* a file's name without its folder */
	size_t in_module;
};

/* False: nothing is known about @addr. Asks the dynamic linker, so no lock may be held. */
bool symbol_find(const void *addr, struct symbol *s);

#endif
