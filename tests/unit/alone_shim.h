/* SPDX-License-Identifier: MIT */
/* Changes without LOCK in a process of one thread (base/alone.h), for C++. */
#ifndef UNIT_ALONE_SHIM_H
#define UNIT_ALONE_SHIM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this build has sections; and whether libc says, too, if there are threads. */
bool shim_alone_has_sections(void);
bool shim_alone_supported(void);
bool shim_alone_is(void);
void shim_alone_begin(void);
void shim_alone_end(void);
/* Each in a section of its own. */
uint64_t shim_alone_or(uint64_t *p, uint64_t v);
uint64_t shim_alone_or_bit(uint64_t *p, uint64_t bit);
uint64_t shim_alone_and(uint64_t *p, uint64_t v);
uint32_t shim_alone_add(uint32_t *p, uint32_t v);
/* Makes 0 of @v; outside of sections. Result: whether it was @v. */
bool shim_alone_take(uint64_t *p, uint64_t v);
int shim_thread_start(void *(*run)(void *));

#ifdef __cplusplus
}
#endif

#endif
