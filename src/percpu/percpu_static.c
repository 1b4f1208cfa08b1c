/* SPDX-License-Identifier: MIT */
/*
 * DEFINE_PER_CPU variables: each program or shared library that defines some has one section
 * with all of them. The addresses in the section are the handles, so the copies lie where these
 * lead: unit i at section + base + i * stride.
 *
 * The library is not told when a shared library is unloaded. When one is loaded at the place
 * of another, it replaces that.
 *
 * Called from constructors (<ukmem/percpu.h>). Lock: static_lock.
 */
#include "percpu/percpu_static.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/lock.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/percpu.h"

struct pcpu_section pcpu_sections[PCPU_MAX_SECTIONS];
unsigned int pcpu_nr_sections;
static struct lock static_lock;

void pcpu_static_init(void)
{
	lock_register(&static_lock, LOCK_RANK_PERCPU);
}

static char *unit_page(const struct pcpu_section *s, unsigned int unit)
{
	return pcpu_ptr(pcpu_first(s->page), unit);
}

/* Whether @p lies in some unit of @s, @len bytes from @from on in each. */
static bool in_units(const struct pcpu_section *s, const char *from, size_t len, const char *p)
{
	uintptr_t offset = (uintptr_t)p - (uintptr_t)pcpu_first(from);

	return s->len && offset / pcpu.stride <= pcpu.nr_ids && offset % pcpu.stride < len;
}

static bool is_mapped(const char *page)
{
	for (unsigned int i = 0; i < pcpu_nr_sections; i++)
		if (in_units(&pcpu_sections[i], pcpu_sections[i].page, pcpu_sections[i].len,
			     page))
			return true;
	return false;
}

/* Whether the copies of @s overlap others: two libraries lie a multiple of the stride apart. */
static bool collides(const struct pcpu_section *s)
{
	for (unsigned int i = 0; i < pcpu_nr_sections; i++) {
		const struct pcpu_section *o = &pcpu_sections[i];

		for (unsigned int unit = 0; !o->gone && unit <= pcpu.nr_ids; unit++)
			if (in_units(o, o->start, (size_t)(o->stop - o->start),
				     pcpu_ptr(pcpu_first(s->start), unit)) ||
			    in_units(s, s->start, (size_t)(s->stop - s->start),
				     pcpu_ptr(pcpu_first(o->start), unit)))
				return true;
	}
	return false;
}

/* Maps the copies' pages; those shared with another section's copies are mapped already. */
static int map_units(const struct pcpu_section *s)
{
	size_t page = os_page_size();

	for (unsigned int unit = 0; unit <= pcpu.nr_ids; unit++) {
		char *p = unit_page(s, unit);

		if (!os_map_metadata_at(p, s->len))
			continue;
		for (size_t i = 0; i < s->len; i += page) {
			int err = is_mapped(p + i) ? 0 : os_map_metadata_at(p + i, page);

			if (err)
				return err;
		}
	}
	return 0;
}

/* Forgets unloaded libraries in whose place @s is now. */
static void forget(const struct pcpu_section *s)
{
	for (unsigned int i = 0; i < pcpu_nr_sections; i++) {
		struct pcpu_section *o = &pcpu_sections[i];

		if (o->gone || o->start >= s->stop || s->start >= o->stop)
			continue;
		o->gone = true;
		for_each_unit (unit)
			memset(pcpu_ptr(pcpu_first(o->start), unit), 0,
			       (size_t)(o->stop - o->start));
	}
}

/* A free place in the table; the one that the same section had before, if there is one. */
static struct pcpu_section *place_for(const struct pcpu_section *s)
{
	for (unsigned int i = 0; i < pcpu_nr_sections; i++)
		if (pcpu_sections[i].gone && pcpu_sections[i].page == s->page &&
		    pcpu_sections[i].len == s->len)
			return &pcpu_sections[i];
	return pcpu_nr_sections < PCPU_MAX_SECTIONS ? &pcpu_sections[pcpu_nr_sections] : NULL;
}

/* Copies the initial values, page by page; pages that are all zeros are not touched. */
static void copy_image(const struct pcpu_section *s)
{
	size_t page = os_page_size();

	for (char *p = s->start; p < s->stop;) {
		char *next = (char *)align_up((uintptr_t)p + 1, page);
		size_t n = (size_t)((next < s->stop ? next : s->stop) - p);
		bool zero = true;

		for (size_t i = 0; i < n && zero; i++)
			zero = !p[i];
		for_each_unit (unit)
			if (!zero)
				memcpy(pcpu_ptr(pcpu_first(p), unit), p, n);
		p += n;
	}
}

static int add(const struct pcpu_section *s)
{
	struct pcpu_section *place;
	int err;

	lock_assert_held(&static_lock);
	debug_assert(s->start <= s->stop && s->page <= s->start);
	if (s->len > pcpu.stride)
		return -E2BIG;
	forget(s);
	place = place_for(s);
	if (!place)
		return -ENOSPC;
	if (collides(s))
		return -EADDRINUSE;
	err = map_units(s);
	if (err)
		return err;
	copy_image(s);
	*place = *s;
	if (place == &pcpu_sections[pcpu_nr_sections])
		pcpu_nr_sections++;
	return 0;
}

/* Makes whole pages of the section itself inaccessible, so that dereferenced handles fault. */
static void trap_direct_use(const struct pcpu_section *s)
{
	uintptr_t from = align_up((uintptr_t)s->start, os_page_size());
	uintptr_t to = align_down((uintptr_t)s->stop, os_page_size());

	if (from < to)
		os_calls.mprotect((void *)from, to - from, PROT_NONE);
}

static const char *why_not(int err)
{
	if (err == -E2BIG)
		return "more than a CPU's unit holds (ukmem info)";
	if (err == -EADDRINUSE)
		return "their copies would meet another library's";
	if (pcpu.base > 0)
		return "the program is not position-independent; then only it can have some";
	return err == -ENOMEM || err == -ENOSPC ? "no memory for their copies"
						: "the place of their copies is taken";
}

void pcpu_static_register(void *start, void *stop, bool trap)
{
	size_t page = os_page_size();
	struct pcpu_section s = { .start = start, .stop = stop };
	int err;

	s.page = (char *)align_down((uintptr_t)start, page);
	s.len = align_up((uintptr_t)stop, page) - (uintptr_t)s.page;
	lock(&static_lock);
	err = add(&s);
	unlock(&static_lock);
	if (err)
		log_fatal("static per-CPU variables at %p, %zu bytes: %s", start,
			  (size_t)(s.stop - s.start), why_not(err));
	if (trap)
		trap_direct_use(&s);
}

size_t pcpu_static_size(void)
{
	size_t size = 0;

	lock(&static_lock);
	for (unsigned int i = 0; i < pcpu_nr_sections; i++)
		size += pcpu_sections[i].gone
				? 0
				: (size_t)(pcpu_sections[i].stop - pcpu_sections[i].start);
	unlock(&static_lock);
	return size;
}

size_t pcpu_static_resident(void)
{
	size_t resident = 0;

	lock(&static_lock);
	for (unsigned int i = 0; i < pcpu_nr_sections; i++)
		for_each_unit (unit)
			resident += os_resident(unit_page(&pcpu_sections[i], unit),
						pcpu_sections[i].len);
	unlock(&static_lock);
	return resident;
}
