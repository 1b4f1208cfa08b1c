/* SPDX-License-Identifier: MIT */
/*
 * The program's name in reports. libc's name of the program points into the program's
 * arguments. A server that shows a title in `ps` overwrites its arguments, and libc's name is
 * then a piece of the title. So the library copies the name when it begins.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

/* Copies the name. Called once, before other threads use the library. */
void program_note(void);
/* The last part of the path by which the program was started; "?" if it is not known. */
const char *program_name(void);
/* A variable of the environment, as secure_getenv(), and also before libc is initialised: then
 * the one that the process was started with. Result: NULL: there is none, or the process has
 * the rights of another user. */
const char *program_environment(const char *variable);

#endif
