/* SPDX-License-Identifier: MIT */
/*
 * The program's name in reports, as libc had it when the library began. A server that shows a
 * title in `ps` writes it over the words that it was started with, of which libc's name is one,
 * so libc's name is a piece of the title from then on.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

/* Keeps the name. Called once, before there are other threads that use the library. */
void program_note(void);
/* The last part of the path of the program's file. */
const char *program_name(void);

#endif
