/* SPDX-License-Identifier: MIT */
/* Reports misuse; then aborts or goes on, as the tunable invalid_free says. */
#ifndef BASE_REPORT_H
#define BASE_REPORT_H

/* @func: the function that the program called, as "kfree()"; @why: what is wrong with @ptr;
 * @caller: the address from which the program called it, or NULL. */
void report_invalid(const char *func, const void *ptr, const char *why, const void *caller);

#endif
