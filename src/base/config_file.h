/* SPDX-License-Identifier: MIT */
/*
 * Files of tunables: /etc/ukmem.conf, and the user's $XDG_CONFIG_HOME/ukmem.conf, by default
 * ~/.config/ukmem.conf, which is the stronger one. The latter counts if its owner is the
 * process's effective user or root.
 *
 *	# for all programs
 *	dirty_max: 1m
 *	[postgres* redis-server]
 *	thp = never
 *
 * A line is "key: value" or "key = value". A line "[NAME NAME...]" begins a section for the
 * programs whose file names are such; * stands for any characters, ? for one. Of two lines for
 * a key the last counts. Lines of other programs' sections are not looked at. A comment begins
 * with # at the start of a line or behind a space.
 */
#ifndef BASE_CONFIG_FILE_H
#define BASE_CONFIG_FILE_H

#include <stddef.h>

#include "base/config.h"

enum {
	CONFIG_LINE_SIZE = 1024,       /* a longer line gets a warning, and is passed over */
	CONFIG_FILE_SIZE = 256 * 1024, /* what follows behind that gets a warning */
};

/* For tests. */
extern const char *config_etc_path;

/* Reads the files as a program of this name does; none in secure mode, or once the process may
 * have a seccomp filter. A file that does not exist costs one system call. */
void config_files_read(struct config_reading *r, const char *program);

/* Sets a value, or warns, with r->at as its place. config.c has it. */
void config_set(struct config_reading *r, const char *key, size_t key_len, const char *s,
		size_t len);

/* Whether the key is @name. A dot in a key stands for an underscore: kfence.sample_interval, as
 * the kernel writes it. config.c has it. */
_Bool config_is_key(const char *name, const char *key, size_t len);

/* Whether @name matches the pattern of @len bytes. */
_Bool config_glob(const char *pattern, size_t len, const char *name);

#endif
