/* SPDX-License-Identifier: MIT */
/* Where packet buffers come from: one table of functions for each kind. */
#ifndef FORWARD_BUFFERS_H
#define FORWARD_BUFFERS_H

#define BUFFER_SIZE 2048u

struct buffers {
	const char *name;
	int (*open)(void); /* 0 or a negative errno; -EOPNOTSUPP: not on this system */
	void *(*alloc)(void);
	void (*free)(void *buffer);
	void (*close)(void);
};

extern const struct buffers buffer_kinds[];
extern const unsigned int nr_buffer_kinds;

/* The kind of this name, or NULL. */
const struct buffers *buffers_find(const char *name);

#endif
