/* SPDX-License-Identifier: MIT */
#include "alone_shim.h"

#include "base/alone.h"
#include "os/os.h"

bool shim_alone_has_sections(void)
{
	return ALONE_X86;
}

bool shim_alone_supported(void)
{
	return ALONE_X86 && &__libc_single_threaded;
}

bool shim_alone_is(void)
{
	bool is;

	alone_begin();
	is = alone_is();
	alone_end();
	return is;
}

void shim_alone_begin(void)
{
	alone_begin();
}

void shim_alone_end(void)
{
	alone_end();
}

uint64_t shim_alone_or(uint64_t *p, uint64_t v)
{
	alone_begin();
	v = alone_fetch_or((_Atomic uint64_t *)(void *)p, v, memory_order_acq_rel);
	alone_end();
	return v;
}

uint64_t shim_alone_or_bit(uint64_t *p, uint64_t bit)
{
	alone_begin();
	bit = alone_fetch_or_bit(alone_flag(), (_Atomic uint64_t *)(void *)p, bit,
				 memory_order_acq_rel);
	alone_end();
	return bit;
}

uint64_t shim_alone_and(uint64_t *p, uint64_t v)
{
	alone_begin();
	v = alone_fetch_and((_Atomic uint64_t *)(void *)p, v, memory_order_acq_rel);
	alone_end();
	return v;
}

bool shim_alone_take(uint64_t *p, uint64_t v)
{
	return alone_replace(alone_flag(), (_Atomic uint64_t *)(void *)p, v, 0);
}

uint32_t shim_alone_add(uint32_t *p, uint32_t v)
{
	alone_begin();
	v = alone_fetch_add((_Atomic uint32_t *)(void *)p, v, memory_order_acq_rel);
	alone_end();
	return v;
}

int shim_thread_start(void *(*run)(void *))
{
	return os_thread_start(run, 64 << 10);
}
