/* SPDX-License-Identifier: MIT */
/* Secrets and random numbers; see slab_hard.h. */
#include "slab/slab_hard.h"

#include <sys/mman.h>

#include "base/alone.h"
#include "base/assert.h"
#include "base/config.h"
#include "os/os.h"

atomic_bool slab_hardened;
union slab_hard_sealed slab_hard_sealed __attribute__((aligned(SLAB_HARD_ALIGN)))
untouched; /* in other processes */

_Static_assert(sizeof(struct slab_hard_tables) <= SLAB_HARD_BYTES, "whole pages");

#ifdef __x86_64__
#include <cpuid.h>

typedef uint64_t four_words __attribute__((vector_size(32), aligned(16), may_alias));

/*
 * Not by __builtin_cpu_supports(): the constructor that comes with it asks the processor in
 * every process, hardened or not, and under a hypervisor its 20 questions cost a tenth of a
 * millisecond.
 */
static bool has_wide(void)
{
	const unsigned int vectors = 6; /* the system keeps registers of 16 and of 32 bytes */
	unsigned int a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (a & vectors) == vectors && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	       b & bit_AVX2;
}

/* Whether @size bytes, a multiple of 128, are zero. */
__attribute__((target("avx2"))) static bool is_zero_wide(const void *slot, size_t size)
{
	const four_words *w = slot, *end = w + size / sizeof(*w);
	four_words any = { 0 };

	for (; w < end; w += 4)
		any |= (w[0] | w[1]) | (w[2] | w[3]);
	return !(any[0] | any[1] | any[2] | any[3]);
}
#else
static bool has_wide(void)
{
	return false;
}

static bool is_zero_wide(const void *slot, size_t size)
{
	(void)slot;
	return !size;
}
#endif

bool slab_hard_is_zero(const void *slot, size_t size)
{
	const slab_two_words *w = slot, *end = w + size / sizeof(*w);
	slab_two_words any = { 0, 0 };

	if (slab_hard()->wide) {
		if (!is_zero_wide(slot, size & ~(size_t)127))
			return false;
		w = end - size % 128 / sizeof(*w);
	}
	for (; end - w >= 8; w += 8) {
		any |= w[0] | w[1] | w[2] | w[3];
		any |= w[4] | w[5] | w[6] | w[7];
	}
	for (; w < end; w++)
		any |= *w;
	return !(any[0] | any[1]);
}

void slab_hard_init(void)
{
	struct slab_hard_tables *t = &slab_hard_sealed.tables;

	if (!config.hardened || config.passthrough || slab_hardened)
		return;
	debug_assert(page_shift() == page_window.page_shift);
	for (unsigned int i = 0; i < ARRAY_SIZE(t->secret); i++)
		t->secret[i] = os_random();
	t->secret[1] |= 1; /* places of lines are squares of its multiples */
	t->secret[3] |= 1; /* canaries are made by multiplications */
	t->secret[5] |= 1;
	t->whole = config.init_on_alloc || config.init_on_free;
	t->wide = has_wide();
	t->alone = alone_flag();
	slab_hardened = true;
}

void slab_hard_seal(void)
{
	if (slab_hardened && page_size() <= SLAB_HARD_ALIGN)
		os_calls.mprotect(&slab_hard_sealed, sizeof(slab_hard_sealed), PROT_READ);
}

uint64_t slab_hard_draw(void)
{
	/* Threads may draw the same number; each mixes another address into it. */
	static atomic_uint_least64_t drawn;
	uint64_t i = atomic_load_explicit(&drawn, memory_order_relaxed);

	atomic_store_explicit(&drawn, i + 1, memory_order_relaxed);
	return slab_hard_mix(i ^ (uintptr_t)&i << 16);
}

unsigned int slab_hard_random(unsigned int n)
{
	debug_assert(n);
	return (unsigned int)((slab_hard_draw() >> 32) * n >> 32);
}

/* Exchanges the last of @n objects for one of them; @bits: 16 random ones. */
static always_inline void exchange_last(void **objs, unsigned int n, uint64_t bits)
{
	void **other = &objs[(bits & 0xffff) * n >> 16], *obj = *other;

	*other = objs[n - 1];
	objs[n - 1] = obj;
}

/* An instruction that writes what it has read faults as a write does. */
static void touch(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("orb $0, %0" : "+m"(*(char *)(uintptr_t)p));
#else
	(void)p;
#endif
}

void slab_hard_touch(const struct kmem_cache *s, void **objs, unsigned int n)
{
	const struct slab_hard_class *c = slab_hard_class_of(s);

	for (unsigned int i = 0; i < n; i++) {
		const char *obj = objs[i], *last = obj + c->size - 1;

		if (c->lines)
			touch(slab_secret_line(c, obj));
		else
			for (const char *p = obj + page_size(); p < last; p += page_size())
				touch(p);
		touch(obj);
		touch(last);
	}
}

void slab_hard_shuffle(void **objs, unsigned int n)
{
	uint64_t r = slab_hard_draw();

	/* Each number serves three choices, since the next one waits for it. Its lowest bits
	 * are the least random ones. */
	for (; n > 3; n -= 3) {
		exchange_last(objs, n, r >> 48);
		exchange_last(objs, n - 1, r >> 32);
		exchange_last(objs, n - 2, r >> 16);
		r = r * 6364136223846793005u + 1442695040888963407u;
	}
	for (; n > 1; n--, r >>= 16)
		exchange_last(objs, n, r >> 16);
}
