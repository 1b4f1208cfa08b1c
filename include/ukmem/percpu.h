/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/percpu.h> - how per-CPU data is reached in this process.
 */
#ifndef UKMEM_PERCPU_H
#define UKMEM_PERCPU_H

#include <stddef.h>

#include <ukmem/compiler.h>

UKMEM_BEGIN_DECLS

enum ukmem_percpu_mode {
	UKMEM_PERCPU_RSEQ,     /**< restartable sequences */
	UKMEM_PERCPU_FALLBACK, /**< a lock per CPU slot */
};

/** What ukmem_percpu_info_read() tells. */
struct ukmem_percpu_info {
	enum ukmem_percpu_mode mode;
	const char *mode_name;	 /**< "rseq" or "fallback" */
	const char *reason;	 /**< why this mode, one line */
	const char *index_kind;	 /**< "cpu_id", "mm_cid" or "slot" */
	unsigned int nr_cpu_ids; /**< largest possible CPU id + 1 */
	size_t unit_size;	 /**< bytes reserved per CPU and chunk */
};

/** ukmem_percpu_info_read - the mode in use and the reason for it. Any thread. */
UKMEM_EXPORT void ukmem_percpu_info_read(struct ukmem_percpu_info *info);

UKMEM_END_DECLS

#endif
