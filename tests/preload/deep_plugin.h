/* SPDX-License-Identifier: MIT */
/* What deep/deep_plugin.so, a library that programs open with RTLD_DEEPBIND, offers. */
#ifndef DEEP_PLUGIN_H
#define DEEP_PLUGIN_H

#include <stddef.h>

/* The program and the library both define this function: its result says which of them does. */
const char *deep_owner(void);
/* The one that the library found. */
const char *deep_found(void);
/* @length times x; the caller's to free. */
char *deep_text(size_t length);
void deep_free(void *p);
/* dlopen, called from here. */
void *deep_open(const char *name, int flags);

#endif
