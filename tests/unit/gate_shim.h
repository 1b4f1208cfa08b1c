/* SPDX-License-Identifier: MIT */
/* The gate between slow paths and fork, for C++. */
#ifndef UNIT_GATE_SHIM_H
#define UNIT_GATE_SHIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

bool shim_gate_init(void);
void shim_gate_enter(bool may_wait);
bool shim_gate_try_enter(void);
void shim_gate_leave(void);
bool shim_gate_is_closed(void);
bool shim_gate_is_inside(void);
bool shim_gate_is_forced(void);
void shim_gate_close(void);
void shim_gate_open(void);
/* Instead of the latter, in the only thread of a process. */
void shim_gate_fork_child(void);
/* Whether more threads left than entered. */
bool shim_gate_wrong(void);

#ifdef __cplusplus
}
#endif

#endif
