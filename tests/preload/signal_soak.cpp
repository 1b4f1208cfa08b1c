/* SPDX-License-Identifier: MIT */
/*
 * A handler allocates and frees all sizes, by C and C++, and so does what it interrupts.
 *
 *	signal_soak [SECONDS]
 *
 * libc's malloc would stand still; so this runs with the library only.
 */
#include "signal_soak.h"

#include <dlfcn.h>

#include <new>

namespace soak
{

namespace
{

enum Kind { MALLOC, CALLOC, REALLOC, NEW, KINDS };

unsigned char *take_kind(size_t size, unsigned int kind)
{
	void *p;

	switch (kind) {
	case MALLOC:
		p = malloc(size);
		break;
	case CALLOC:
		p = calloc(1, size);
		break;
	case REALLOC:
		p = malloc(size / 2 + 1);
		if (void *q = p ? realloc(p, size) : nullptr)
			p = q;
		else {
			free(p);
			p = nullptr;
		}
		break;
	default:
		p = ::operator new(size, std::nothrow);
	}
	return static_cast<unsigned char *>(p);
}

} // namespace

const bool may_be_refused_anywhere = false;

unsigned char *take(Place &place, size_t size, unsigned int *kind)
{
	*kind = static_cast<unsigned int>(rng_below(&place.rng, KINDS));
	return take_kind(size, *kind);
}

void give(Place &, const Slot &slot)
{
	if (slot.kind == NEW)
		::operator delete(slot.p);
	else
		free(slot.p);
}

void also(Place &)
{
}

} // namespace soak

int main(int argc, char **argv)
{
	Dl_info home;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &home) && strstr(home.dli_fname, "ukmem"),
	      "another malloc is in use");
	soak::run(soak::seconds_wanted(argc, argv));
	verify_library();
	return 0;
}
