/* SPDX-License-Identifier: MIT */
/* Decides how caches cut their slabs, and how many slabs a CPU's list holds. */
#include "slab/slab_geometry.h"
#include "base/assert.h"
#include "base/config.h"

_Static_assert(SLAB_MAX_BYTES / 4096 <= PAGE_SLAB_SPAN_MAX &&
		       SLAB_LARGE_MOST / 4096 <= PAGE_SLAB_SPAN_MAX,
	       "or the way back is too far");

/* The layout of a slab of @npages; the bitmap is in the slab if page entries are too few. */
static struct slab_layout lay_out(const struct kmem_cache *s, unsigned int npages)
{
	unsigned int bytes = npages * (unsigned int)page_size(), n;
	struct slab_layout l = { .npages = (uint16_t)npages };

	bytes -= min_uint(bytes, s->pad_left);
	n = (bytes + s->colour) / s->size;
	l.bitmap_in_slab = (n + 63) / 64 > npages * PAGE_BITMAP_WORDS;
	if (l.bitmap_in_slab) {
		/* As if each object took its bits with it: at most a word's too many. */
		n = min_uint(n, bytes * 8 / (s->size * 8 + 1));
		while (n * s->size + (n + 63) / 64 * 8 > bytes)
			n--;
	}
	debug_assert(n <= UINT16_MAX && npages <= UINT16_MAX);
	l.objects = (uint16_t)n;
	return l;
}

static unsigned int waste(const struct kmem_cache *s, const struct slab_layout *l)
{
	unsigned int bytes = l->npages * (unsigned int)page_size();

	return (bytes - (unsigned int)slab_objects_bytes(s, l->objects)) * 4096 / bytes;
}

/* Whether a slab of @npages has its objects aligned as they must be. Coloured ones need not be.
 */
static bool is_aligned(const struct kmem_cache *s, unsigned int npages)
{
	bool aligned = is_pow2(s->size) || s->align > page_size();

	return !aligned || is_pow2(npages);
}

/* The number of objects a slab should hold: 16 or 96 KiB of them; 64 KiB of large ones. */
static unsigned int usual_objects(unsigned int size)
{
	return size > SLAB_MAX_SIZE ? max_uint(65536 / size, 1) : min_uint(98304 / size, 16);
}

/* The fewest pages, from @min on, that may hold @enough objects; @max: fewer than that do not.
 * Fewer need not be looked at: every process does this for all size classes. */
static unsigned int first_candidate(const struct kmem_cache *s, unsigned int enough,
				    unsigned int min, unsigned int max)
{
	uint64_t bytes = (uint64_t)enough * s->size;
	unsigned int n = max;

	if (bytes <= (uint64_t)max * page_size())
		n = ((unsigned int)bytes + (unsigned int)page_size() - 1) >>
		    page_window.page_shift;
	if (is_pow2(s->size) || s->align > page_size())
		n = 1u << ilog2(n); /* an aligned one, which may be too small */
	return max_uint(n, min);
}

/*
 * Pages per slab: the fewest that hold enough objects and waste at most 1/64; if there is no
 * such number, the least wasteful one up to 128 KiB. Object sizes that are powers of two get
 * powers of two, so that objects are aligned to their size. The tunables slab_min_order,
 * slab_max_order and slab_min_objects, which are the kernel's, bound the number.
 */
void slab_set_geometry(struct kmem_cache *s)
{
	unsigned int enough = config.slab_min_objects ? (unsigned int)config.slab_min_objects
						      : usual_objects(s->size);
	unsigned int min = 1u << config.slab_min_order, best = UINT32_MAX, n;
	unsigned int max = min_uint(max_uint(SLAB_MAX_BYTES >> page_window.page_shift, 1),
				    1u << config.slab_max_order);

	/* Fewer pages have no room for an object. */
	n = max_uint((s->pad_left + slab_object_bytes(s)) >> page_window.page_shift, 1);
	for (;; n++) {
		s->small = s->layout = lay_out(s, n);
		if (s->layout.objects && is_aligned(s, n))
			break;
	}
	min = max_uint(min_uint(min, max), n);
	for (n = first_candidate(s, enough, min, max); n <= max; n++) {
		struct slab_layout l;
		unsigned int wasted;

		if (!is_aligned(s, n))
			continue;
		l = lay_out(s, n);
		if (l.objects < enough) { /* the largest stays, if none has enough */
			s->layout = l;
			continue;
		}
		wasted = waste(s, &l);
		if (wasted >= best)
			continue;
		best = wasted;
		s->layout = l;
		if (best <= 64)
			break;
	}
	s->large = s->layout;
	s->shift = (uint8_t)exact_shift(s->size);
	s->inverse = exact_inverse(s->size);
	debug_assert(s->small.objects && s->small.npages <= s->layout.npages);
	debug_assert(s->layout.objects && s->layout.npages <= PAGE_SLAB_SPAN_MAX);
}

void slab_set_lean(struct kmem_cache *s)
{
	unsigned int bytes = slab_object_bytes(s), fill, n;

	if (s->hard || config.slab_min_objects || config.slab_min_order)
		return;
	/* Objects fill pages whose bytes are a multiple of the size; coloured ones as long as
	 * there is one. */
	fill = bytes >> min_uint((unsigned int)__builtin_ctz(bytes), page_window.page_shift);
	n = (s->small.npages + fill - 1) / fill * fill;
	for (; n < s->layout.npages; n += fill) {
		struct slab_layout l = lay_out(s, n);

		if (!is_aligned(s, n) || !l.objects ||
		    slab_objects_bytes(s, l.objects) != (size_t)n * page_size())
			continue;
		s->small = l;
		s->lean = true;
		return;
	}
}

/* Whether the user has bounded slabs below @npages; the tunable's usual value bounds those of
 * the usual layout alone. */
static bool is_too_large(unsigned int npages)
{
	unsigned int most = 1u << config.slab_max_order;

	return npages > most && most < (unsigned int)SLAB_MAX_BYTES >> page_window.page_shift;
}

void slab_set_large(struct kmem_cache *s)
{
	unsigned int one_entry = 64 * PAGE_BITMAP_WORDS * s->size, n;
	unsigned int most = s->size < SLAB_LARGE_SIZE ? SLAB_LARGE_BYTES : SLAB_LARGE_MOST;

	n = 1u << ilog2(max_uint(min_uint(one_entry, most) >> page_window.page_shift, 1));
	if (s->hard || config.slab_min_objects || config.slab_min_order ||
	    n < 2u * s->layout.npages || is_too_large(n)) {
		s->large_mark = 0;
		return;
	}
	s->large = lay_out(s, n);
	debug_assert(s->large.bitmap_in_slab == s->layout.bitmap_in_slab);
}

unsigned int slab_default_cpu_partial(const struct kmem_cache *s)
{
	if (s->size > SLAB_MAX_SIZE)
		return 2;
	if (s->size >= page_size())
		return 6;
	return s->size >= 1024 ? 24 : s->size >= 256 ? 52 : 120;
}

uint16_t slab_cpu_partial_slabs(const struct kmem_cache *s, unsigned int objects)
{
	size_t per_slab = s->layout.objects;

	return (uint16_t)min_size((2 * (size_t)objects + per_slab - 1) / per_slab,
				  SLAB_CPU_PARTIAL_MAX);
}
