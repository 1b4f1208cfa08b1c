/* SPDX-License-Identifier: MIT */
/*
 * Describes where the library keeps what, so that a tool of any version can read a process from
 * outside: structures with their fields, constants, and the addresses of variables. Compilers
 * compute all numbers here, so the description cannot differ from the code. It costs the
 * process nothing: no initialisation, and read-only pages that nobody but a reader touches.
 *
 * A reader finds the description by an ELF note: name "ukmem", type LIVE_FORMAT, and the
 * distance from the note to live_layout.
 *
 * References to variables are weak, since a static program may contain only some layers. The
 * table of layers (layer/layer.c) links this file into every program.
 */
#include "live/description.h"

#include <stddef.h>

#include "base/bits.h"
#include "kfence/object.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/vm_event.h"
#include "page/zone_types.h"
#include "page/zonelist.h"
#include "percpu/array_wind.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"
#include "percpu/percpu_static.h"
#include "profile/sites.h"
#include "slab/debug/twin.h"
#include "slab/slab_cache.h"
#include "slab/slab_list.h"
#include "slab/slab_page.h"
#include "slab/slab_profile.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"
#include "ukmem/alloc_tag.h"

/* clang-format off */
#define SIZE(s) { #s, LIVE_STRUCT, sizeof(struct s), 1, 0 }
#define MEMBER(s, m) (((struct s *)0)->m)
#define SIZEOF(s, m) sizeof(__typeof__(MEMBER(s, m)))
#define FIELD(s, m) { #s "." #m, LIVE_FIELD, SIZEOF(s, m), 1, offsetof(struct s, m) }
#define ARRAY(s, m)                                                                            \
	{ #s "." #m, LIVE_FIELD, SIZEOF(s, m[0]), ARRAY_SIZE(MEMBER(s, m)), offsetof(struct s, m) }
/* An array without a length of its own, at the end of a structure. */
#define TAIL(s, m) { #s "." #m, LIVE_FIELD, SIZEOF(s, m[0]), 0, offsetof(struct s, m) }
#define CONSTANT(c) { #c, LIVE_CONSTANT, 8, 1, (c) }
/* clang-format on */

static const struct live_entry entries[] = {
	/* base */
	SIZE(list_head),
	FIELD(list_head, next),
	FIELD(list_head, prev),
	FIELD(deferred, first),
	/* percpu */
	SIZE(ukmem_percpu_state),
	FIELD(ukmem_percpu_state, rseq),
	FIELD(ukmem_percpu_state, index),
	FIELD(ukmem_percpu_state, base),
	FIELD(ukmem_percpu_state, stride),
	FIELD(ukmem_percpu_state, limit),
	FIELD(ukmem_percpu_state, nr_ids),
	SIZE(pcpu_mode),
	FIELD(pcpu_mode, reason),
	FIELD(pcpu_mode, index_kind),
	FIELD(pcpu_mode, self_test),
	SIZE(os_mask),
	ARRAY(os_mask, bits),
	SIZE(pcpu_array),
	FIELD(pcpu_array, header),
	FIELD(pcpu_array, capacity),
	FIELD(pcpu_array, laps),
	TAIL(pcpu_array, slot),
	CONSTANT(PCPU_ARRAY_COUNT_MASK),
	CONSTANT(PCPU_ARRAY_STOP),
	CONSTANT(PCPU_ARRAY_TICKS_SHIFT),
	CONSTANT(PCPU_ARRAY_TICKS),
	CONSTANT(PCPU_ARRAY_BASE_SHIFT),
	CONSTANT(PCPU_ARRAY_POPS_MASK),
	CONSTANT(PCPU_LAPS_SHIFT),
	CONSTANT(PCPU_LAP_SHIFT),
	CONSTANT(PCPU_ARRAY_MAX_SLOTS),
	SIZE(pcpu_chunk),
	FIELD(pcpu_chunk, next),
	FIELD(pcpu_chunk, base),
	FIELD(pcpu_chunk, bytes),
	SIZE(pcpu_section),
	FIELD(pcpu_section, page),
	FIELD(pcpu_section, len),
	CONSTANT(PCPU_MAX_SECTIONS),
	/* kfence */
	SIZE(kfence_pool),
	FIELD(kfence_pool, base),
	FIELD(kfence_pool, len),
	FIELD(kfence_pool, page_size),
	FIELD(kfence_pool, nr_objects),
	FIELD(kfence_pool, nr_small),
	FIELD(kfence_pool, objects),
	FIELD(kfence_pool, objects_bytes),
	SIZE(kfence_object),
	FIELD(kfence_object, state),
	FIELD(kfence_object, cache),
	FIELD(kfence_object, addr),
	FIELD(kfence_object, size),
	ARRAY(kfence_object, alloc.pc),
	FIELD(kfence_object, alloc.depth),
	CONSTANT(KFENCE_LARGE_BYTES),
	CONSTANT(KFENCE_UNUSED),
	CONSTANT(KFENCE_IN_USE),
	/* queue */
	SIZE(alf_queue),
	FIELD(alf_queue, producer.word),
	FIELD(alf_queue, producer.size),
	FIELD(alf_queue, consumer.word),
	/* page */
	SIZE(page_window),
	FIELD(page_window, base),
	FIELD(page_window, size),
	FIELD(page_window, readable),
	FIELD(page_window, array_map),
	FIELD(page_window, pages),
	FIELD(page_window, places),
	FIELD(page_window, page_shift),
	FIELD(page_window, zone_shift),
	FIELD(page_window, dma_shift),
	FIELD(page_window, low_shift),
	FIELD(page_window, nr_nodes),
	FIELD(page_window, dma_pfn),
	FIELD(page_window, low_pfn),
	FIELD(page_window, aside_pfn),
	FIELD(page_window, aside_pages),
	FIELD(page_window, low_base),
	FIELD(page_window, low_part_shift),
	FIELD(page_window, low_size),
	{ "page_window.array_map[]", LIVE_STRUCT, SIZEOF(page_window, array_map[0]), 1, 0 },
	{ "page_window.places[]", LIVE_STRUCT, SIZEOF(page_window, places[0]), 1, 0 },
	CONSTANT(ARRAY_MAP_SHIFT),
	SIZE(page),
	FIELD(page, type),
	FIELD(page, order),
	FIELD(page, zero),
	FIELD(page, span),
	FIELD(page, state),
	FIELD(page, free_list.next),
	FIELD(page, free_list.prev),
	FIELD(page, cache),
	FIELD(page, list.next),
	FIELD(page, list.prev),
	FIELD(page, npages),
	ARRAY(page, bitmap),
	CONSTANT(PAGE_NONE),
	CONSTANT(PAGE_FREE),
	CONSTANT(PAGE_CACHED),
	CONSTANT(PAGE_ALLOCATED),
	CONSTANT(PAGE_SLAB),
	CONSTANT(PAGE_LARGE),
	CONSTANT(PAGE_DIRTY),
	CONSTANT(PAGE_FRESH),
	CONSTANT(PAGE_PURGED),
	CONSTANT(PAGE_NO_ORDER),
	CONSTANT(PAGE_SLAB_SPAN_MAX),
	SIZE(zone),
	FIELD(zone, pageset),
	FIELD(zone, start),
	FIELD(zone, end),
	FIELD(zone, managed),
	ARRAY(zone, wmark),
	FIELD(zone, lowmem_reserve),
	FIELD(zone, node),
	FIELD(zone, type),
	FIELD(zone, pcp_high),
	FIELD(zone, pcp_batch),
	ARRAY(zone, pcp_offset),
	ARRAY(zone, pcp_capacity),
	FIELD(zone, pcp_counters),
	FIELD(zone, frontier),
	FIELD(zone, used),
	FIELD(zone, dirty),
	ARRAY(zone, early),
	FIELD(zone, deferred.first),
	FIELD(zone, nr_free),
	FIELD(zone, nr_dirty),
	FIELD(zone, present),
	FIELD(zone, isolated),
	FIELD(zone, spare_pages),
	FIELD(zone, carve_start),
	FIELD(zone, carve_end),
	FIELD(zone, carve_zero),
	FIELD(zone, ahead_start),
	FIELD(zone, ahead_end),
	FIELD(zone, nr_direct),
	FIELD(zone, nr_purged),
	FIELD(zone, nr_refault),
	ARRAY(zone, free),
	CONSTANT(ZONE_DMA),
	CONSTANT(ZONE_DMA32),
	CONSTANT(ZONE_NORMAL),
	CONSTANT(MAX_NR_ZONES),
	CONSTANT(WMARK_MIN),
	CONSTANT(WMARK_LOW),
	CONSTANT(WMARK_HIGH),
	CONSTANT(NUMA_MISS),
	CONSTANT(NUMA_FOREIGN),
	CONSTANT(NUMA_OTHER),
	CONSTANT(NUMA_INTERLEAVE_HIT),
	CONSTANT(PCP_RUN_POPPED),
	CONSTANT(PCP_ORDERS),
	CONSTANT(PCP_RUN_MAX),
	SIZE(pglist_data),
	FIELD(pglist_data, node_id),
	FIELD(pglist_data, memory),
	ARRAY(pglist_data, zonelists),
	FIELD(pglist_data, used),
	SIZE(page_limits),
	FIELD(page_limits, limit),
	FIELD(page_limits, used),
	FIELD(page_limits, dirty),
	CONSTANT(ASIDE_IN_USE_SHIFT),
/* Names of vm events, each with its index in the per-CPU array of 64-bit counters. */
#define VM_EVENT_ENTRY(item, name) { "vm_event:" name, LIVE_CONSTANT, 8, 1, item },
	VM_EVENTS(VM_EVENT_ENTRY)
#undef VM_EVENT_ENTRY
	/* slab */
	SIZE(kmem_cache),
	FIELD(kmem_cache, cpu_array),
	FIELD(kmem_cache, partial_array),
	FIELD(kmem_cache, size),
	FIELD(kmem_cache, colour),
	FIELD(kmem_cache, pad_left),
	FIELD(kmem_cache, layout.npages),
	FIELD(kmem_cache, layout.objects),
	FIELD(kmem_cache, layout.bitmap_in_slab),
	FIELD(kmem_cache, small.npages),
	FIELD(kmem_cache, small.objects),
	FIELD(kmem_cache, small.bitmap_in_slab),
	FIELD(kmem_cache, large.npages),
	FIELD(kmem_cache, large.objects),
	FIELD(kmem_cache, large.bitmap_in_slab),
	FIELD(kmem_cache, capacity_max),
	FIELD(kmem_cache, shared_size),
	FIELD(kmem_cache, array_stride),
	FIELD(kmem_cache, keeps_slabs),
	FIELD(kmem_cache, min_partial),
	FIELD(kmem_cache, cpu_partial),
	FIELD(kmem_cache, cpu_partial_slabs),
	FIELD(kmem_cache, remote_node_defrag_ratio),
	FIELD(kmem_cache, object_size),
	FIELD(kmem_cache, align),
	FIELD(kmem_cache, flags),
	FIELD(kmem_cache, ctor),
	FIELD(kmem_cache, events),
	FIELD(kmem_cache, list.next),
	FIELD(kmem_cache, list.prev),
	FIELD(kmem_cache, new_next),
	ARRAY(kmem_cache, name),
	FIELD(kmem_cache, nodes),
	FIELD(kmem_cache, home),
	FIELD(kmem_cache, twin),
	FIELD(kmem_cache, debug),
	FIELD(kmem_cache, record_offset),
	FIELD(kmem_cache, quarantine),
	FIELD(kmem_cache, max_slabs),
	FIELD(kmem_cache, limit_interval),
	FIELD(kmem_cache, stock_slabs),
	FIELD(kmem_cache, stock),
	FIELD(kmem_cache, most_slabs),
	SIZE(kmem_cache_node),
	FIELD(kmem_cache_node, shards),
	FIELD(kmem_cache_node, nr_shards),
	FIELD(kmem_cache_node, nr_slabs),
	FIELD(kmem_cache_node, nr_small),
	FIELD(kmem_cache_node, nr_large),
	FIELD(kmem_cache_node, inuse),
	FIELD(kmem_cache_node, shared),
	SIZE(slab_shard),
	FIELD(slab_shard, partial),
	FIELD(slab_shard, nr_partial),
	SIZE(slab_stock),
	FIELD(slab_stock, nr),
	SIZE(slab_quarantine),
	FIELD(slab_quarantine, count),
	FIELD(slab_quarantine, first),
	ARRAY(slab_quarantine, queue),
	CONSTANT(SLAB_FULL),
	CONSTANT(SLAB_WITH_CPU),
	CONSTANT(SLAB_ON_NODE),
	CONSTANT(SLAB_STATE_BIAS),
	CONSTANT(SLAB_STATE_MASK),
	CONSTANT(SLAB_WHOLE_ONE),
	CONSTANT(SLAB_WHERE_SHIFT),
	CONSTANT(SLAB_HWCACHE_ALIGN),
	CONSTANT(SLAB_CACHE_DMA),
	CONSTANT(SLAB_RECLAIM_ACCOUNT),
	CONSTANT(SLAB_TYPESAFE_BY_RCU),
	CONSTANT(SLAB_POISON),
	CONSTANT(SLAB_RED_ZONE),
	CONSTANT(SLAB_CONSISTENCY_CHECKS),
	CONSTANT(SLAB_STORE_USER),
	CONSTANT(SLAB_DEBUG_FLAGS),
/* Names of caches' events, as the vm events'. */
#define SLAB_EVENT_ENTRY(name, attr) { "slab_event:" #attr, LIVE_CONSTANT, 8, 1, SLAB_##name },
	SLAB_EVENTS(SLAB_EVENT_ENTRY)
#undef SLAB_EVENT_ENTRY
	/* kmalloc */
	SIZE(kmalloc_fast),
	CONSTANT(LARGE_BLOCK_SHIFT),
	SIZE(ukmem_alloc_tag_table),
	FIELD(ukmem_alloc_tag_table, version),
	FIELD(ukmem_alloc_tag_table, nr),
	FIELD(ukmem_alloc_tag_table, copies),
	FIELD(ukmem_alloc_tag_table, base),
	FIELD(ukmem_alloc_tag_table, stride),
	FIELD(ukmem_alloc_tag_table, tags),
	SIZE(ukmem_alloc_tag),
	FIELD(ukmem_alloc_tag, file),
	FIELD(ukmem_alloc_tag, function),
	FIELD(ukmem_alloc_tag, line),
	FIELD(ukmem_alloc_tag, counters),
	SIZE(ukmem_alloc_tag_counters),
	FIELD(ukmem_alloc_tag_counters, bytes),
	FIELD(ukmem_alloc_tag_counters, objects),
	CONSTANT(UKMEM_ALLOC_TAGS_VERSION),
	/* profile */
	SIZE(slab_profile),
	FIELD(slab_profile, on),
	FIELD(slab_profile, interval),
	FIELD(slab_profile, level),
	SIZE(profile_site),
	FIELD(profile_site, ready),
	FIELD(profile_site, depth),
	FIELD(profile_site, allocs),
	FIELD(profile_site, alloc_bytes),
	FIELD(profile_site, frees),
	FIELD(profile_site, free_bytes),
	ARRAY(profile_site, pc),
	CONSTANT(PROFILE_SITES),
	CONSTANT(PROFILE_STACK_DEPTH),
	FIELD(page, sampled),
	FIELD(page, sample.site),
	FIELD(page, sample.weight),
	FIELD(page, sample.bytes),
};

/* Variables that a reader begins with. X(name) */
#define SYMBOLS(X)                                                                             \
	X(pcpu)                                                                                \
	X(pcpu_mode)                                                                           \
	X(pcpu_forks)                                                                          \
	X(pcpu_possible)                                                                       \
	X(pcpu_first_chunk)                                                                    \
	X(pcpu_sections)                                                                       \
	X(pcpu_nr_sections)                                                                    \
	X(os_nr_prefer_refused)                                                                \
	X(kfence_pool)                                                                         \
	X(page_window)                                                                         \
	X(page_limits)                                                                         \
	X(zones)                                                                               \
	X(node_data)                                                                           \
	X(zonelists_bytes)                                                                     \
	X(vm_events)                                                                           \
	X(aside_word)                                                                          \
	X(slab_caches)                                                                         \
	X(slab_caches_pushed)                                                                  \
	X(slab_boot_cache)                                                                     \
	X(slab_boot_node)                                                                      \
	X(slab_queues)                                                                         \
	X(kmalloc_fast)                                                                        \
	X(large_allocs)                                                                        \
	X(large_in_use)                                                                        \
	X(ukmem_alloc_tag_table)                                                               \
	X(slab_profile)                                                                        \
	X(profile_sites)

#define WEAK(name) extern __typeof__(name) name __attribute__((weak));
SYMBOLS(WEAK)
#undef WEAK

#define SYMBOL(name) { #name, &name },
static const struct live_symbol symbols[] = { SYMBOLS(SYMBOL) };
#undef SYMBOL

/* The note below names it in assembly. */
__attribute__((used)) const struct live_layout live_layout = {
	.magic = { 'u', 'k', 'm', 'e', 'm', 'l', 'a', 'y' }, /* no string: there is no 0 */
	.format = LIVE_FORMAT,
	.size = sizeof(struct live_layout),
	.version = UKMEM_VERSION,
	.entries = entries,
	.symbols = symbols,
	.nr_entries = ARRAY_SIZE(entries),
	.entry_size = sizeof(entries[0]),
	.nr_symbols = ARRAY_SIZE(symbols),
	.symbol_size = sizeof(symbols[0]),
};

_Static_assert(LIVE_FORMAT == 1, "the note below says so");

/* In assembly, because C has no distances between objects. */
__asm__(".pushsection .note.ukmem, \"a\", %note\n"
	".balign 4\n"
	".long 6, 8, 1\n" /* length of the name, length of what follows it, type: LIVE_FORMAT */
	".asciz \"ukmem\"\n"
	".balign 4\n"
	".quad live_layout - .\n"
	".popsection\n");
