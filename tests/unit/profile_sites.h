// SPDX-License-Identifier: MIT
// Two call sites that a profile can tell apart. Each program has functions of its own, so that
// the linker leaves them one behind the other.
#ifndef UNIT_PROFILE_SITES_H
#define UNIT_PROFILE_SITES_H

#include <cstdint>

#include <ukmem/kmalloc.h>

#include "profile_util.h"

namespace
{
const size_t site_bytes = 256;
__attribute__((noinline, aligned(256))) void *seldom()
{
	void *volatile p = kmalloc(256, GFP_KERNEL);
	return p;
}
__attribute__((noinline, aligned(256))) void *often()
{
	void *volatile p = kmalloc(256, GFP_KERNEL);
	return p;
}

// Fills the bytes behind the site in front of it.
__attribute__((noinline, aligned(256), used)) void *none()
{
	void *volatile p = nullptr;
	return p;
}

struct at_site {
	uintptr_t from, to;
	bool operator()(const site &s) const
	{
		return passes(s, (void *)from, (void *)to);
	}
};
} // namespace

#endif
