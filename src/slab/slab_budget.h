/* SPDX-License-Identifier: MIT */
/* What kmalloc's arrays may hold together; see slab_budget.c. */
#ifndef SLAB_SLAB_BUDGET_H
#define SLAB_SLAB_BUDGET_H

#include "slab/slab_types.h"

bool slab_budget_init(void);
/* Makes @s share the budget; while it is created. */
void slab_budget_join(struct kmem_cache *s);
/* Caches that share it: the @i-th of @n that have joined so far. */
unsigned int slab_budget_members(void);
struct kmem_cache *slab_budget_member(unsigned int i);
/* Which member is asked next to give room on @cpu: another one each time. */
unsigned int slab_budget_turn(unsigned int cpu);

/* Room for @objects of @s on @cpu, if there is as much below @max bytes. Caches without a
 * budget always have it. */
bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			uint64_t max);
/* The same although there is none. */
void slab_budget_exceed(struct kmem_cache *s, unsigned int cpu, unsigned int objects);
void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects);
/* Bytes charged on all CPUs. */
uint64_t slab_budget_used(void);

#endif
