/* SPDX-License-Identifier: MIT */
/* Misuse found: reported, then aborted or passed over as configured (invalid_free). */
#ifndef BASE_REPORT_H
#define BASE_REPORT_H

/* @func: whom the program called, e.g. "kfree()"; @why: what is wrong with @ptr. */
void report_invalid(const char *func, const void *ptr, const char *why);

#endif
