/* SPDX-License-Identifier: MIT */
#ifndef BEHIND_H
#define BEHIND_H

/* The results of the library's functions, to which it adds what it was called with. */
enum { BEHIND_CHROOT = 1000, BEHIND_PRCTL = 2000 };

#endif
