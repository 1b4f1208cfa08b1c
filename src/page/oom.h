/* SPDX-License-Identifier: MIT */
/* Reports about requests that failed for lack of memory, as the kernel's; the tunable
 * oom_report asks for them. */
#ifndef PAGE_OOM_H
#define PAGE_OOM_H

#include <stdbool.h>
#include <stddef.h>

#include "page/page.h"

/*
 * Reports that a request of the program failed: what it asked for, what zones and limits there
 * are, and the largest caches. @what: what it asked for, as "a block" or a cache's name. At
 * most one report a second. Result: whether it has written one.
 *
 * Only requests that may wait are reported, where the thread is in no slow path: other ones
 * must not make a system call, or a handler has interrupted somebody whose lock others wait
 * for. Requests with __GFP_NOWARN are not reported, nor those for more than a process may have
 * at all, nor any of a process that may have a seccomp filter. This function waits for no lock,
 * allocates nothing, and keeps errno.
 */
bool page_report_failure(const char *what, size_t bytes, gfp_t flags);

#endif
