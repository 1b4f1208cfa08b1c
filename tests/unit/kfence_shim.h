/* SPDX-License-Identifier: MIT */
/* KFENCE's insides for C++ tests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the gate, as if an interval had elapsed, also where there is none; or as a thread does
 * that is late: after another one has closed it for ever. */
void shim_kfence_open(void);
void shim_kfence_open_late(void);
void shim_kfence_close(void);
bool shim_kfence_is_open(void);
/* The clock says @now. */
void shim_kfence_look(uint64_t now);
bool shim_kfence_has(const void *p);
size_t shim_kfence_pool_bytes(void);
/* The number of the object whose page @p is in. */
unsigned int shim_kfence_index(const void *p);
size_t shim_kfence_size(const void *p);
/* The state of an object, without the thread that changes it. */
unsigned int shim_kfence_state(unsigned int index);
/* Whether the page of an object, and not one of its guards, is noted as opened after a report.
 */
bool shim_kfence_is_opened(unsigned int index);
/* Whether the byte at @p can be read. */
bool shim_kfence_is_readable(const void *p);
/* Pretends that a thread is changing the object, or none. */
enum shim_kfence_thread { SHIM_NOBODY, SHIM_THIS, SHIM_ANOTHER };
void shim_kfence_set_state(unsigned int index, unsigned int state, enum shim_kfence_thread by);
/* kmalloc() past the arrays, of up to 64 KiB. */
void *shim_kmalloc_slow(size_t size, unsigned int flags);

#ifdef __cplusplus
}
#endif
