/* SPDX-License-Identifier: MIT */
/* Puts into words what was found about an object of the pool. */
#ifndef KFENCE_REPORT_H
#define KFENCE_REPORT_H

#include "kfence/object.h"

enum kfence_bug {
	KFENCE_OUT_OF_BOUNDS,
	KFENCE_USE_AFTER_FREE,
	KFENCE_INVALID_ACCESS, /* where there was no object yet */
};

enum kfence_access {
	KFENCE_SOME_ACCESS, /* the system does not tell */
	KFENCE_READ,
	KFENCE_WRITE,
	KFENCE_FETCH, /* of an instruction: the program jumped there */
};

/* The word for an access in reports. */
const char *kfence_access_word(enum kfence_access access);

/* An access to @addr faulted, at the place that @now has. @o: the object it is about; NULL: it
 * is not known. */
void kfence_report_fault(enum kfence_bug bug, enum kfence_access access, const char *addr,
			 const struct kfence_object *o, const struct kfence_track *now);
/* The program wrote to the bytes around @o, first at @damage; @o is being freed. */
void kfence_report_damage(const struct kfence_object *o, const uint8_t *damage);
/* The program called @func with a @p that is not an object. */
void kfence_report_misuse(const void *p, const char *func, const struct kfence_track *now);
/* Lists an object. */
void kfence_report_object(const struct kfence_object *o);
/* How many bugs were reported. */
uint64_t kfence_reports(void);

#endif
