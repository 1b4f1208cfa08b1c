/* SPDX-License-Identifier: MIT */
/*
 * Reports in the form of the kernel's. Each line is written by a system call of its own, as all
 * messages of the library, and nothing here allocates.
 */
#include "kfence/report.h"

#include <stdio.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/symbol.h"
#include "os/os.h"

enum { DAMAGE_BYTES = 16 }; /* of damage that are shown */

static _Atomic uint64_t reports; /* Synchronization: relaxed */

uint64_t kfence_reports(void)
{
	return atomic_load_explicit(&reports, memory_order_relaxed);
}

static void write_stack(const struct kfence_track *t)
{
	char site[SYMBOL_TEXT_SIZE];

	for (unsigned int i = 0; i < t->depth; i++)
		log_warn("    %s", symbol_text((const void *)t->pc[i], site));
}

/* Begins a report. */
static void write_title(const char *bug, const struct kfence_track *now)
{
	char site[SYMBOL_TEXT_SIZE];

	atomic_fetch_add_explicit(&reports, 1, memory_order_relaxed);
	log_warn("BUG: KFENCE: %s in %s", bug,
		 now->depth ? symbol_text((const void *)now->pc[0], site) : "?");
}

static void write_track(const char *what, const struct kfence_track *t)
{
	uint64_t ago = os_calls.now_us() - t->us;

	if (!t->us)
		return;
	log_warn("  %s by thread %u at %llu.%06llus (%llu.%06llus ago):", what, t->thread,
		 (unsigned long long)(t->us / 1000000), (unsigned long long)(t->us % 1000000),
		 (unsigned long long)(ago / 1000000), (unsigned long long)(ago % 1000000));
	write_stack(t);
}

void kfence_report_object(const struct kfence_object *o)
{
	log_warn("  kfence-#%u: %p-%p, size=%zu, cache=%s", kfence_index(o), (void *)o->addr,
		 (void *)(o->addr + o->size - 1), o->size, o->name);
	write_track("allocated", &o->alloc);
	write_track("freed", &o->free);
}

/* "1B right of kfence-#7", "in kfence-#7" */
static void write_place(const char *addr, const struct kfence_object *o, char *buf)
{
	const char *end = o->addr + o->size;

	if (addr < o->addr)
		snprintf(buf, SYMBOL_TEXT_SIZE, "%zuB left of kfence-#%u",
			 (size_t)(o->addr - addr), kfence_index(o));
	else if (addr >= end)
		snprintf(buf, SYMBOL_TEXT_SIZE, "%zuB right of kfence-#%u",
			 (size_t)(addr - end) + 1, kfence_index(o));
	else
		snprintf(buf, SYMBOL_TEXT_SIZE, "in kfence-#%u", kfence_index(o));
}

const char *kfence_access_word(enum kfence_access access)
{
	static const char *const words[] = {
		[KFENCE_SOME_ACCESS] = "access",
		[KFENCE_READ] = "read",
		[KFENCE_WRITE] = "write",
		[KFENCE_FETCH] = "instruction fetch",
	};

	return words[access];
}

void kfence_report_fault(enum kfence_bug bug, enum kfence_access access, const char *addr,
			 const struct kfence_object *o, const struct kfence_track *now)
{
	static const char *const bugs[] = { "out-of-bounds", "use-after-free", "invalid" };
	char title[64], place[SYMBOL_TEXT_SIZE] = "in no object";
	bool begun = log_begin();

	snprintf(title, sizeof(title), "%s %s", bugs[bug], kfence_access_word(access));
	write_title(title, now);
	if (o)
		write_place(addr, o, place);
	log_warn("  %s at %p (%s) by thread %u:", title, (const void *)addr, place,
		 now->thread);
	write_stack(now);
	if (o)
		kfence_report_object(o);
	log_end(begun);
}

void kfence_report_damage(const struct kfence_object *o, const uint8_t *damage)
{
	const uint8_t *end = (const uint8_t *)o->addr;
	char bytes[DAMAGE_BYTES * 5 + 1] = "", place[SYMBOL_TEXT_SIZE];
	bool begun = log_begin();
	int n = 0;

	if (damage >= end)
		end = (const uint8_t *)kfence_run(o).end;
	for (unsigned int i = 0; i < DAMAGE_BYTES && damage + i < end; i++)
		n += snprintf(bytes + n, sizeof(bytes) - (size_t)n,
			      damage[i] == kfence_canary(damage + i) ? ". " : "0x%02x ",
			      damage[i]);
	write_place((const char *)damage, o, place);
	write_title("memory corruption", &o->free);
	log_warn("  corrupted memory at %p [ %s] (%s), found when it was freed",
		 (const void *)damage, bytes, place);
	kfence_report_object(o);
	log_end(begun);
}

void kfence_report_misuse(const void *p, const char *func, const struct kfence_track *now)
{
	const struct kfence_object *o = kfence_object_at(p);
	char place[SYMBOL_TEXT_SIZE] = "in a guard page";
	bool begun = log_begin();

	if (o && kfence_state(o) != KFENCE_UNUSED)
		write_place(p, o, place);
	write_title("invalid free", now);
	log_warn("  %s of %p (%s) by thread %u:", func, p, place, now->thread);
	write_stack(now);
	if (o && kfence_state(o) != KFENCE_UNUSED)
		kfence_report_object(o);
	log_end(begun);
}
