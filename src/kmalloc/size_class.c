/* SPDX-License-Identifier: MIT */
/* The size classes' caches, and the tables that lead to them. */
#include "kmalloc/size_class.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/decimal.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/verify.h"
#include "os/os.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "slab/debug/annotate.h"
#include "slab/debug/hard.h"
#include "slab/slab_cache.h"
#include "slab/slab_create.h"
#include "slab/slab_reserve.h"

/*
 * Synchronization: these, and `together`, are written by size_class_init(). Sizes are in units
 * of 8 bytes: two words of 32 bits beside each other could be an address, to those who search
 * memory for pointers.
 */
static uint16_t units[SIZE_CLASS_ALL];

/* A class that is made later is stored with release, after it was made. */
static _Atomic(struct kmem_cache *) caches[SIZE_CLASS_ALL];

/*
 * The coloured classes. Objects of 4 KiB that lie at multiples of their size have all their
 * first lines in one set of a processor's first cache, which has room for 8 to 12. Coloured
 * ones lie a line further apart. They are not aligned to their size, which the library's
 * kmalloc() promises and malloc() does not. So the drop-in has coloured classes, and for
 * aligned requests a class more of each of these sizes, the aligned classes. The short ways of
 * processes whose objects are zeroed (kmalloc_push_init()) find a class by its size, of which
 * there must be one. Synchronization: size_class_init() writes it.
 */
static bool coloured;

static bool may_be_coloured(void)
{
	return os_heap.is_ukmem && !slab_hardened && !config.init_on_alloc &&
	       !config.init_on_free;
}

unsigned int size_class_count(void)
{
	return coloured ? SIZE_CLASS_ALL : SIZE_CLASS_COUNT;
}

static struct kmem_cache *cache_of(unsigned int i)
{
	return atomic_load_explicit(&caches[i], memory_order_acquire); /* Z4 */
}

static unsigned int class_size(unsigned int i)
{
	return units[i] * 8u;
}

/* Whether class @i is one of those that may be coloured. */
static bool has_colour(unsigned int i)
{
	unsigned int size = class_size(i);

	return coloured && i < SIZE_CLASS_COUNT && is_pow2(size) &&
	       size >= SIZE_CLASS_COLOURED_MIN && size <= SIZE_CLASS_ALWAYS_MAX;
}

/* The aligned class of as many bytes as the coloured class @i. */
static unsigned int aligned_class(unsigned int i)
{
	debug_assert(has_colour(i));
	return SIZE_CLASS_COUNT + ilog2(class_size(i) / SIZE_CLASS_COLOURED_MIN);
}

static void fill_sizes(void)
{
	size_t size = 0;

	for (unsigned int i = 0; i < SIZE_CLASS_COUNT; i++) {
		size = size_class_bytes(size + 1);
		debug_assert(size % 8 == 0);
		units[i] = (uint16_t)(size / 8);
		if (has_colour(i))
			units[aligned_class(i)] = units[i];
	}
	debug_assert(size == SIZE_CLASS_LARGE_MAX);
}

/*
 * The slow paths' tables: the class of each step of sizes. The steps are those of kmalloc_fast.
 */
static uint8_t small_class[SIZE_CLASS_SMALL_MAX / 8 + 1],
	large_class[SIZE_CLASS_LARGE_MAX / 256];

static void fill_classes(void)
{
	unsigned int small = 0, large = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(small_class); i++) {
		small += units[small] < i;
		debug_assert(small < SIZE_CLASS_COUNT);
		small_class[i] = (uint8_t)small;
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(large_class); i++) {
		while (class_size(large) < (i + 1) * 256)
			large++;
		large_class[i] = (uint8_t)large;
	}
}

/* Index of the smallest class that holds @size. */
static unsigned int class_index(size_t size)
{
	unsigned int i;

	debug_assert(size <= SIZE_CLASS_LARGE_MAX);
	i = size <= SIZE_CLASS_SMALL_MAX ? small_class[size_small_index(size)]
					 : large_class[size_large_index(size)];
	debug_assert(i < SIZE_CLASS_COUNT && class_size(i) >= size &&
		     (!i || class_size(i - 1) < size));
	return i;
}

static struct kmem_cache *make_later(unsigned int i);

/* The cache of class @i, or of a larger one. */
static inline struct kmem_cache *get(unsigned int i)
{
	struct kmem_cache *s = cache_of(i);

	return likely(s) ? s : make_later(i);
}

struct kmem_cache *size_class_cache(size_t size)
{
	return get(class_index(size));
}

struct kmem_cache *size_class_made_for(size_t size)
{
	return cache_of(class_index(size));
}

struct kmem_cache *size_class_made(unsigned int i, size_t *size)
{
	debug_assert(i < size_class_count());
	*size = class_size(i);
	return cache_of(i);
}

/*
 * Slabs begin at a page, so an object is aligned to each power of two, up to a page, that
 * divides its size; objects whose size is a power of two are aligned to that, but coloured ones
 * to the colour. If a large size would need a larger class for its alignment, whole pages waste
 * less.
 */
static unsigned int aligned_index(size_t size, size_t align)
{
	unsigned int first, last;

	debug_assert(is_pow2(align));
	if (size > SIZE_CLASS_LARGE_MAX || align > SIZE_CLASS_LARGE_MAX)
		return SIZE_CLASS_ALL;
	last = class_index(max_size(size, SIZE_CLASS_ALWAYS_MAX));
	/* No smaller one has a multiple of @align bytes. */
	first = class_index(align_up(max_size(size, 1), align));
	for (unsigned int i = first; i <= last; i++)
		if (!(class_size(i) & (align - 1)) &&
		    (align <= page_size() || is_pow2(class_size(i))))
			return align > SIZE_CLASS_COLOUR && has_colour(i) ? aligned_class(i)
									  : i;
	return SIZE_CLASS_ALL;
}

struct kmem_cache *size_class_aligned(size_t size, size_t align)
{
	unsigned int i = aligned_index(size, align);
	struct kmem_cache *s;

	if (i == SIZE_CLASS_ALL)
		return NULL;
	s = get(i);
	/* The largest class is aligned to everything that another one is. */
	return s == cache_of(i) ? s : cache_of(SIZE_CLASS_COUNT - 1);
}

size_t size_class_usable(size_t size, size_t align)
{
	const struct kmem_cache *s;
	unsigned int i = SIZE_CLASS_ALL;

	if (slab_hardened || align > 1)
		i = aligned_index(size_class_need(size), align);
	else if (size <= SIZE_CLASS_LARGE_MAX)
		i = class_index(size);
	if (i == SIZE_CLASS_ALL)
		return 0;
	s = cache_of(i);
	/* A hardened process, whose objects have less, makes all at once. */
	return s ? s->object_size : class_size(i);
}

static const char *prefix_of(unsigned int i)
{
	return i < SIZE_CLASS_COUNT ? "kmalloc-" : "aligned-kmalloc-";
}

/* Slots of an array: 8 MiB of objects, within bounds: with its header, 128 KiB at most. The
 * CPU's budget limits it further. */
static unsigned int capacity_max(unsigned int size)
{
	return min_uint(max_uint((8u << 20) / size, 320), PCPU_ARRAY_MAX_SLOTS - 1);
}

static struct slab_params class_params(unsigned int i, char name[32], const char *prefix)
{
	unsigned int size = class_size(i);

	/* Without snprintf(), whose code a process that does little need not touch. */
	debug_assert(strlen(prefix) + sizeof("65536") <= 32);
	format_decimal(text_append(name, prefix), size);
	return (struct slab_params){
		.name = name,
		.size = size,
		/* Objects whose size is a power of two are promised alignment to it. */
		.align = is_pow2(size) && size <= SLAB_MAX_ALIGN && !has_colour(i) ? size : 0,
		.colour = has_colour(i) ? SIZE_CLASS_COLOUR : 0,
		.capacity_max = capacity_max(size),
		.budgeted = true,
		.permanent = true,
		.class_mark = (uint8_t)(i + 1),
		.large_mark = (uint8_t)(SIZE_MARK_LARGE + i),
	};
}

/*
 * On several nodes the arrays lie in one piece of per-CPU memory:
 *
 *   | 8 bytes, node 0 | 16 bytes, node 0 | ... | 8 bytes, node 1 | 16 bytes, node 1 | ... |
 *     <----------- node_stride ------------>
 *
 * So all classes' arrays for objects of a node lie equally far behind those of node 0.
 */
static struct {
	char *arrays; /* NULL: each cache has its own */
	size_t node_stride;
} together;

static void alloc_together(void)
{
	size_t stride = 0;

	if (page_window.nr_nodes == 1 || together.arrays)
		return;
	for (unsigned int i = 0; i < size_class_count(); i++)
		stride += slab_array_bytes(capacity_max(class_size(i)));
	together.arrays = pcpu_alloc_permanent_arrays(stride * page_window.nr_nodes);
	together.node_stride = together.arrays ? stride : 0;
}

/* The smallest classes have no room for a canary, and serve no request of a hardened process.
 */
static void harden(struct slab_params *p)
{
	if (!slab_hardened || p->size < SLAB_HARD_MIN)
		return;
	p->size -= SLAB_CANARY_BYTES;
	p->hard = true;
}

static const struct slab_hard_class *hard_class(size_t size)
{
	return &slab_hard()->by_mark[size_class_cache(size)->class_mark];
}

/* Fills the tables of a hardened process, and makes the cache for requests of no bytes. */
static bool create_hard(void)
{
	struct slab_hard_tables *t = &slab_hard_sealed.tables;
	struct slab_params p = {
		.name = "kmalloc-0",
		.size = SLAB_HARD_MIN - SLAB_CANARY_BYTES,
		.capacity_max = 64,
		.permanent = true,
		.class_mark = SIZE_MARK_NOTHING,
		.hard = true,
		.nothing = true,
	};

	if (!slab_hardened || t->nothing)
		return true;
	for (unsigned int i = 0; i < SIZE_CLASS_COUNT; i++)
		if (cache_of(i)->hard)
			slab_hard_enter(cache_of(i));
	for (unsigned int i = 0; i < ARRAY_SIZE(t->small); i++)
		t->small[i] = hard_class(max_size((size_t)i * 8, SLAB_HARD_MIN));
	for (unsigned int i = 0; i < ARRAY_SIZE(t->large); i++)
		t->large[i] = hard_class((size_t)(i + 1) * 256);
	t->nothing = slab_create(&p);
	if (!t->nothing)
		return false;
	slab_hard_enter(t->nothing);
	slab_hard_seal();
	return true;
}

struct kmem_cache *size_class_nothing(void)
{
	return slab_hard()->nothing;
}

static void set_shapes(struct size_class_shape *shapes, unsigned int i,
		       const struct kmem_cache *s)
{
	if (s->hard) /* its objects are found by slab_hard_free() */
		return;
	shapes[i + 1] = (struct size_class_shape){
		.inverse = (uint32_t)s->inverse,
		.shift = s->shift,
		.size = class_size(i),
		.objects = s->layout.objects,
	};
	shapes[SIZE_MARK_LARGE + i] = shapes[i + 1];
	shapes[SIZE_MARK_LARGE + i].objects = s->large.objects;
}

static bool create_caches(struct size_class_shape *shapes)
{
	char *next = together.arrays;

	for (unsigned int i = 0; i < size_class_count(); i++) {
		char name[32];
		struct slab_params p = class_params(i, name, prefix_of(i));
		struct kmem_cache *s = cache_of(i);

		if (next) {
			p.arrays = next;
			p.array_stride = (unsigned int)together.node_stride;
			next += slab_array_bytes(p.capacity_max);
		}
		harden(&p);
		if (!s)
			s = slab_create(&p);
		if (!s)
			return false;
		atomic_store_explicit(&caches[i], s, memory_order_relaxed);
		set_shapes(shapes, i, s);
	}
	return true;
}

/*
 * Classes that are made when they are first needed. All memory for them is set aside at the
 * start, addresses that nobody touches. So to make one takes no lock but that of the registry
 * of locks, and cannot fail. The fast paths' tables lead to the arrays from the start; the
 * array of a class that is not made is all zero, which is closed.
 */
static struct {
	bool used;
	/* Of the next descriptor, and behind the last. Synchronization: the maker */
	char *place, *end;
	struct size_class_shape *shapes;
	uint32_t array[SIZE_CLASS_ALL]; /* entries: pcpu_entry() */
	/* The thread that makes one now; or 0. Synchronization: acquire, release. */
	_Atomic uintptr_t maker;
} later;

/* All classes are made at once in programs that are linked with the library, on several nodes
 * and where addresses are scarce; and where a setting is for certain classes, or for somebody
 * who looks at all of them: a checker, the tool. */
static bool may_be_later(void)
{
	return os_heap.is_ukmem && page_window.nr_nodes == 1 && !slab_hardened &&
	       !config.passthrough && !config.init_on_alloc && !config.init_on_free &&
	       !*config.slab_debug && !*config.slab_attr && config.show == SHOW_NOTHING &&
	       config.live == LIVE_NEVER && !slab_annotate_wanted() &&
	       !pcpu_address_space_is_scarce();
}

/*
 * Per CPU, a class's list of slabs and its events lie in front of its array: with the slots
 * that an array begins with they are in one page. Where in the page, differs from class to
 * class, so that the arrays' first lines share no set of the processor's cache.
 *
 *   | list, events, array of 8 bytes ... | list, events, array of 16 bytes ... | ...
 *   ^ a page                             ^ a page
 */
static bool set_aside(struct size_class_shape *shapes)
{
	enum { PAGE = 4096, STEP = 2 * CACHE_LINE, PLACES = 17 };
	size_t head = slab_cpu_bytes(), bytes = 0;
	char *first;

	for (unsigned int i = 0; i < size_class_count(); i++) {
		bytes = align_up(bytes, PAGE) + (size_t)i * 7 % PLACES * STEP + head;
		/* Arrays begin in the second lines of pairs. */
		bytes = align_up(bytes - CACHE_LINE, STEP) + CACHE_LINE;
		later.array[i] = (uint32_t)bytes;
		bytes += slab_array_bytes(capacity_max(class_size(i)));
	}
	if (!later.place)
		later.place = os_permanent_piece(size_class_count() * slab_descriptor_bytes());
	later.end = later.place + size_class_count() * slab_descriptor_bytes();
	first = later.place ? pcpu_alloc_permanent(bytes, PAGE) : NULL;
	if (!first)
		return false;
	for (unsigned int i = 0; i < size_class_count(); i++)
		later.array[i] += (uint32_t)pcpu_entry(first);
	later.shapes = shapes;
	later.used = true;
	return true;
}

/* Makes class @i. The caller is the maker. NULL: the child of a fork that could not wait for
 * the maker has no place for it, because that one's half-made class took one. */
static struct kmem_cache *make(unsigned int i)
{
	char name[32];
	struct slab_params p = class_params(i, name, prefix_of(i));
	struct kmem_cache *s;

	if (unlikely(later.place == later.end))
		return NULL;
	p.arrays = pcpu_first_unit() + later.array[i];
	p.array_stride = slab_array_bytes(p.capacity_max);
	p.cpu_place = (char *)p.arrays - slab_cpu_bytes();
	p.place = later.place;
	later.place += slab_descriptor_bytes();
	s = slab_create_prepared(&p);
	set_shapes(later.shapes, i, s);
	debug_assert(s->budgeted);
	/* Before it is listed, so that no class is made, and listed, twice: also in the child
	 * of a fork that could not wait for the maker (percpu/gate.h). */
	atomic_store_explicit(&caches[i], s, memory_order_release); /* Z3 */
	slab_enlist_prepared(s);
	return s;
}

/* Whether this thread is the maker now. A handler that interrupted the maker is not, nor does a
 * thread wait for long. */
static bool become_maker(void)
{
	enum { LOOKS = 200, YIELDS_FROM = 100 };

	for (unsigned int i = 0; i < LOOKS; i++) {
		uintptr_t maker = 0;

		if (atomic_compare_exchange_strong_explicit(&later.maker, &maker, lock_self(),
							    memory_order_acquire, /* Z6 */
							    memory_order_relaxed))
			return true;
		if (maker == lock_self())
			break;
		if (i < YIELDS_FROM)
			cpu_relax();
		else
			sys_yield();
	}
	return false;
}

/* The smallest class above @i that is made; above an aligned class, the largest one, which
 * always is made. */
static struct kmem_cache *larger(unsigned int i)
{
	struct kmem_cache *s = NULL;

	i = min_uint(i, SIZE_CLASS_COUNT - 2);
	while (!s)
		s = cache_of(++i);
	return s;
}

/*
 * Makes class @i, inside the gate, so that no child of a fork finds half of it. Where this
 * thread must not wait, a larger class serves: in a handler that interrupted the maker, or the
 * holder of a lock, which may be the registry's; while another thread forks.
 */
static cold struct kmem_cache *make_later(unsigned int i)
{
	struct kmem_cache *s = NULL;

	debug_assert(later.used);
	if (lock_none_held()) {
		pcpu_gate_enter(true);
		if (!pcpu_gate_is_closed() && become_maker()) {
			s = cache_of(i);
			if (!s && (s = make(i))) {
				/* A write brings this CPU's page at once; a read first would
				 * bring the system's page of zeros. */
				slab_count_events(s, SLAB_ALLOC_SLOWPATH, 0);
			}
			atomic_store_explicit(&later.maker, 0, memory_order_release); /* Z5 */
		}
		pcpu_gate_leave();
	}
	return s ? s : larger(i);
}

/* The maker, if it was another thread, is not in the child. */
void size_class_fork_child(void)
{
	if (atomic_load_explicit(&later.maker, memory_order_relaxed) != lock_self())
		atomic_store_explicit(&later.maker, 0, memory_order_relaxed);
}

void size_class_make_all(void)
{
	for (unsigned int i = 0; i < size_class_count(); i++)
		get(i);
}

/* Caches for requests that name a zone, by zone and class; each is made when first needed. */
static _Atomic(struct kmem_cache *) zone_caches[2][SIZE_CLASS_COUNT] untouched;

static cold struct kmem_cache *make_zone_cache(unsigned int zone, unsigned int i, gfp_t flags)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	struct kmem_cache *s, *before = NULL;
	char name[32];
	struct slab_params p = class_params(i, name, zone ? "dma32-kmalloc-" : "dma-kmalloc-");

	debug_assert(flags & (zone ? __GFP_DMA32 : __GFP_DMA) && i < SIZE_CLASS_COUNT);
	p.flags = zone ? SLAB_CACHE_DMA32 : SLAB_CACHE_DMA;
	p.capacity_max = min_uint(p.capacity_max, 64);
	p.budgeted = p.permanent = false;
	p.large_mark = 0;
	debug_assert(!p.colour); /* the drop-in has no such requests */
	if (slab_hardened)
		p.class_mark =
			0; /* the mark leads to the usual cache; this one is not hardened */
	s = may_block ? slab_create(&p) : slab_cache_new_nowait(&p);
	if (!s)
		return NULL;
	/* Z1: a thread that loads the pointer (Z2) sees the cache. */
	if (atomic_compare_exchange_strong_explicit(&zone_caches[zone][i], &before, s,
						    memory_order_release,
						    memory_order_acquire)) {
		if (!may_block)
			slab_reserve_use(s);
		return s;
	}
	if (may_block)
		kmem_cache_destroy(s);
	else
		slab_reserve_put(s);
	return before;
}

struct kmem_cache *size_class_zone_cache(size_t size, gfp_t flags)
{
	unsigned int zone = !(flags & __GFP_DMA), i = class_index(size);
	struct kmem_cache *s =
		atomic_load_explicit(&zone_caches[zone][i], memory_order_acquire); /* Z2 */

	return s ? s : make_zone_cache(zone, i, flags);
}

/* The entry of the array for objects of class @i of node 0; none, if they are zeroed, or the
 * cache is hardened. */
static pcpu_entry_t entry_of(unsigned int i)
{
	const struct kmem_cache *s = cache_of(i);

	if (later.used)
		return later.array[i];
	return slab_alloc_is_shut(s) ? PCPU_ENTRY_NONE : pcpu_entry(s->cpu_array);
}

static pcpu_entry_t entry_for(size_t size)
{
	return entry_of(class_index(size));
}

static void fill_tables(struct size_tables *tables)
{
	pcpu_entry_t entry[SIZE_CLASS_COUNT];

	for (unsigned int i = 0; i < SIZE_CLASS_COUNT; i++)
		entry[i] = entry_of(i);
	for (size_t i = 0; i < ARRAY_SIZE(tables->small); i++)
		tables->small[i] = entry[small_class[i]];
	for (size_t i = 0; i < ARRAY_SIZE(tables->large); i++)
		tables->large[i] = entry[large_class[i]];
}

bool size_class_init(struct size_tables *tables, struct size_class_shape *shapes,
		     size_t *node_stride)
{
	coloured = may_be_coloured();
	fill_sizes();
	alloc_together();
	*node_stride = together.node_stride;
	if (may_be_later() && !cache_of(0) && set_aside(shapes))
		make(SIZE_CLASS_COUNT - 1);
	else if (!create_caches(shapes))
		return false;
	fill_classes();
	if (!create_hard())
		return false;
	fill_tables(tables);
	return true;
}

void size_class_verify(const struct size_tables *tables, const struct size_class_shape *shapes,
		       struct verify *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables->small); i++)
		verify_that(v, tables->small[i] == entry_for(i * 8),
			    "kmalloc: the table leads size %zu elsewhere", i * 8);
	for (size_t i = 0; i < ARRAY_SIZE(tables->large); i++)
		verify_that(v, tables->large[i] == entry_for((i + 1) * 256),
			    "kmalloc: the table leads size %zu elsewhere", (i + 1) * 256);
	for (unsigned int i = 0; i < size_class_count(); i++) {
		const struct kmem_cache *s = cache_of(i);

		verify_that(v,
			    s ? slab_object_bytes(s) == class_size(i) &&
					    (s->hard ||
					     (shapes[i + 1].size == class_size(i) &&
					      exact_divide_32(s->size, shapes[i + 1].inverse,
							      shapes[i + 1].shift) == 1))
			      : later.used,
			    "kmalloc: the class of %u bytes has another size", class_size(i));
	}
}
