/* SPDX-License-Identifier: MIT */
/*
 * Zonelists: the zones a request tries, in order, and the cache of those that are full.
 *
 * The cache serves long lists most of whose zones are full: walking them would touch a
 * cache line of every zone for each allocation. It is a hint, written without a lock:
 *
 *   - nothing of it is done until the first zone of the list has been tried and failed;
 *   - then zones whose bit is set, or whose node the process may not use, are skipped;
 *   - a zone that comes up short, in whatever watermark, gets its bit set;
 *   - all bits are cleared once a second;
 *   - a scan that finds nothing is followed by one that ignores the cache, so that no
 *     request fails because of it.
 *
 * Source: the zonelist cache of Linux 2.6.20 (P. Jackson).
 */
#ifndef PAGE_ZONELIST_H
#define PAGE_ZONELIST_H

#include "page/node.h"
#include "page/zone_types.h"

/* Synchronization: fullzones and last_full_zap: any thread, relaxed; the rest read-only. */
struct zonelist_cache {
	_Atomic uint64_t last_full_zap;	  /* ms */
	uint16_t *z_to_n;		  /* node index of each zone of the list */
	_Atomic unsigned long *fullzones; /* a bit per zone of the list */
};

/* Synchronization: read-only once built. */
struct zonelist {
	struct zonelist_cache *cache; /* NULL: none; a list of a bind policy, or one zone */
	unsigned int nr;
	struct zone *zones[];
};

/* Lists of all nodes and zone types; after zones and limits. */
bool zonelists_init(void);
/* Bytes of physical memory behind them. */
size_t zonelists_resident(void);
/* The memory a list of @nr zones needs, without a cache. */
size_t zonelist_size(unsigned int nr);
/* A list for requests up to @type: @n nodes' zones, in the order of @nodes, without a cache. */
void zonelist_build(struct zonelist *zl, const uint16_t *nodes, unsigned int n,
		    enum zone_type type);
/* All nodes by distance from @node, itself first; ties in turn, by index after its own. */
void nodes_by_distance(unsigned int node, uint16_t *order);
/* The nodes in the order in which @node's requests try them: the @i-th, itself first. */
unsigned int page_fallback_node(unsigned int node, unsigned int i);

/* Whether any zone of @zl could ever serve @rq from @nodes (NULL: all). */
bool zonelist_may_serve(const struct zonelist *zl, const struct node_mask *nodes,
			const struct alloc_request *rq);
/*
 * The first page that a zone of @zl gives for @rq. @nodes: NULL, or the only nodes to look at.
 * @preferred: the node that the request asked for, for the counters.
 */
struct page *zonelist_alloc(struct zonelist *zl, const struct node_mask *nodes,
			    unsigned int preferred, const struct alloc_request *rq);

#endif
