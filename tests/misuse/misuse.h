/* SPDX-License-Identifier: MIT */
/*
 * A misuse program defines these two. main, in misuse.c, hands one of the pointers
 * to a function of the malloc family.
 */
#ifndef MISUSE_H
#define MISUSE_H

/* misuse_bug - a pointer that malloc must refuse. */
void *misuse_bug(void);
/* misuse_control - the pointer that a program without this bug would have. */
void *misuse_control(void);

#endif
