/* SPDX-License-Identifier: MIT */
/* The part of malloc_api_test about reports and memory that goes back; see malloc_reports.c. */
#ifndef PRELOAD_MALLOC_REPORTS_H
#define PRELOAD_MALLOC_REPORTS_H

#include <stddef.h>

#define MIB ((size_t)1 << 20)

void test_trim_and_mallinfo(void);
void test_mallinfo_after_trim(void);
void test_mallinfo_adds_up(void);
void test_mallopt(void);
void test_trim_threshold(void);
void test_reports(void);

#endif
