/* SPDX-License-Identifier: MIT */
/* Names of places in the program's code. */
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

/* Finds the symbol at @addr. False: nothing is known about it. With glibc before 2.35, and with
 * other libcs, the dynamic linker takes locks, so the caller must hold none. Otherwise any
 * thread may ask, also in a signal handler. */
bool symbol_find(const void *addr, struct symbol *s);

/* A file's name has 255 bytes at most. */
enum { SYMBOL_TEXT_SIZE = 352 };
/* Writes "function+0x12 (module+0x1234)", as far as that is known, to @buf, which has
 * SYMBOL_TEXT_SIZE bytes. @addr: a return address; it belongs to the function of the call
 * before it. Result: @buf. */
const char *symbol_text(const void *addr, char *buf);

#endif
