/* SPDX-License-Identifier: MIT */
#ifndef COMPAT_RECYCLE_H
#define COMPAT_RECYCLE_H

#include <linux/types.h>

struct session;
struct slab_sheaf;

int recycle_init(void);
int recycle_exit(void);
void session_begin(struct slab_sheaf *sheaf, u32 id, u64 owner);
void session_end(struct session *s);
u64 session_owner(u32 id, bool linger);
struct slab_sheaf *session_reserve(struct slab_sheaf *sheaf, unsigned int n);
void session_shrink(void);
void session_unreserve(struct slab_sheaf *sheaf);

#endif
