/* SPDX-License-Identifier: MIT */
/*
 * Zonelists: the zones that a request tries, in order, and the cache of full zones.
 *
 * The cache is for long lists most of whose zones are full: without it each allocation would
 * touch a cache line of every zone. It is a hint, written without a lock:
 *
 *   - a request uses it only after the first zone of the list has failed;
 *   - then it skips zones whose bit is set, or whose node the process may not use;
 *   - a zone that has not enough, for whatever watermark, gets its bit set;
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

/* Builds the lists of all nodes and zone types; called after zones and limits. */
bool zonelists_init(void);
/* Bytes of the lists of all nodes. Synchronization: read-only after zonelists_init(). */
extern size_t zonelists_bytes;
/* Bytes of physical memory behind the lists. */
size_t zonelists_resident(void);
/* The memory a list of @nr zones needs, without a cache. */
size_t zonelist_size(unsigned int nr);
/* A list for requests up to @type: @n nodes' zones, in the order of @nodes, without a cache. */
void zonelist_build(struct zonelist *zl, const uint16_t *nodes, unsigned int n,
		    enum zone_type type);
/* All nodes by distance from @node, itself first; at equal distance by index from it on. */
void nodes_by_distance(unsigned int node, uint16_t *order);
/* Number @i of the nodes that requests of @node try, in order; 0 is @node itself. */
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
