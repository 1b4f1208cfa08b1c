/* SPDX-License-Identifier: MIT */
/* DEFINE_PER_CPU variables. */
#ifndef PERCPU_PERCPU_STATIC_H
#define PERCPU_PERCPU_STATIC_H

#include <stdbool.h>
#include <stddef.h>

void pcpu_static_init(void);
/* As ukmem_percpu_register_static(); the layer is initialised. */
void pcpu_static_register(void *start, void *stop, bool trap);
size_t pcpu_static_size(void);
size_t pcpu_static_resident(void);

#endif
