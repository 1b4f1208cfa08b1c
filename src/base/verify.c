/* SPDX-License-Identifier: MIT */
/* Findings of the layers' verification; see verify.h. */
#include "base/verify.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/sys_call.h"
#include "base/text.h"

void verify_found(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	if (v->n == VERIFY_FINDINGS)
		return;
	va_start(ap, fmt);
	vsnprintf(v->text[v->n], VERIFY_TEXT, fmt, ap);
	va_end(ap);
	v->n++;
}

static bool has(const struct verify *v, const char *text)
{
	for (unsigned int i = 0; i < v->n; i++)
		if (text_is(v->text[i], text))
			return true;
	return false;
}

/* Drops the findings of @v that @again does not have. */
static void keep_common(struct verify *v, const struct verify *again)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < v->n; i++) {
		if (!has(again, v->text[i]))
			continue;
		if (n != i)
			memcpy(v->text[n], v->text[i], VERIFY_TEXT);
		n++;
	}
	v->n = n;
}

/* Each pause is longer: a thread that does not run now may be in the middle of a change. */
static void pause_for(unsigned int look)
{
	struct timespec left = { .tv_nsec = 500000l << 2 * look };

	while (sys_call(SYS_clock_nanosleep, CLOCK_REALTIME, 0, &left, &left) == -EINTR)
		;
}

unsigned int verify_run(struct verify *v, void (*look)(struct verify *v, void *arg), void *arg)
{
	struct verify again;

	v->n = 0;
	look(v, arg);
	for (unsigned int i = 1; v->n && i < VERIFY_LOOKS; i++) {
		pause_for(i);
		again.n = 0;
		look(&again, arg);
		keep_common(v, &again);
	}
	return v->n;
}
