/* SPDX-License-Identifier: MIT */
/* For Rust: what the C headers define inline, and what they promise about layouts. */
#include <ukmem/ukmem.h>

#define RUST(type, name, ...)                                                                  \
	type ukmem_rs_##name(__VA_ARGS__);                                                     \
	type ukmem_rs_##name(__VA_ARGS__)

_Static_assert(GFP_KERNEL == 0xcc0, "lib.rs has its value");
_Static_assert(GFP_NOWAIT == 0x800, "lib.rs has its value");
_Static_assert(GFP_ATOMIC == 0x820, "lib.rs has its value");
_Static_assert(__GFP_ZERO == 0x100, "lib.rs has its value");
_Static_assert(__GFP_NOWARN == 0x2000, "lib.rs has its value");
_Static_assert(SLAB_HWCACHE_ALIGN == 0x2000, "lib.rs has its value");
_Static_assert(SLAB_DEBUG_FLAGS == 0x10d00, "lib.rs has its value");
_Static_assert(MAX_PAGE_ORDER == 30, "lib.rs has its value");
_Static_assert(ALF_QUEUE_MAX_SIZE == 65536, "lib.rs has its value");
_Static_assert(sizeof(struct ukmem_gauges) == 6 * sizeof(size_t), "lib.rs has its layout");
_Static_assert(UKMEM_STATS_TEXT == 0 && UKMEM_STATS_JSON == 1, "lib.rs has its values");

RUST(const char *, mode, void)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	return info.mode_name;
}

#define WORD(bits, type)                                                                       \
	RUST(void, this_cpu_add_##bits, type *handle, type v)                                  \
	{                                                                                      \
		this_cpu_add(*handle, v);                                                      \
	}                                                                                      \
	RUST(type, this_cpu_add_return_##bits, type *handle, type v)                           \
	{                                                                                      \
		return this_cpu_add_return(*handle, v);                                        \
	}                                                                                      \
	RUST(type, per_cpu_sum_##bits, type *handle)                                           \
	{                                                                                      \
		return per_cpu_sum(*handle);                                                   \
	}

WORD(8, uint8_t)
WORD(16, uint16_t)
WORD(32, uint32_t)
WORD(64, uint64_t)

RUST(unsigned int, alf_sp_enqueue_burst, struct alf_queue *q, void *const *p, uint32_t n)
{
	return alf_sp_enqueue_burst(q, p, n);
}

RUST(unsigned int, alf_sc_dequeue_burst, struct alf_queue *q, void **p, uint32_t n)
{
	return alf_sc_dequeue_burst(q, p, n);
}

RUST(uint32_t, alf_queue_size, const struct alf_queue *q)
{
	return alf_queue_size(q);
}

RUST(uint32_t, alf_queue_count, const struct alf_queue *q)
{
	return alf_queue_count(q);
}
