/* SPDX-License-Identifier: MIT */
/* The mode, and the layer as a whole. */
#ifndef PERCPU_PERCPU_INIT_H
#define PERCPU_PERCPU_INIT_H

#include <stdbool.h>

/* Initialises the layer, once. False: no memory for the first chunk. */
bool pcpu_init(void);

#endif
