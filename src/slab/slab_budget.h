/* SPDX-License-Identifier: MIT */
/* The budget of kmalloc's arrays and queues; see slab_budget.c. */
#ifndef SLAB_SLAB_BUDGET_H
#define SLAB_SLAB_BUDGET_H

#include "slab/slab_types.h"

/* The part of the budgets that a charge may use: of the CPU's; of that of all CPUs together. */
enum slab_budget_part {
	/* A calm CPU (slab_budget.c) has 1 MiB, whatever the part. */
	SLAB_BUDGET_LITTLE, /* 16 MiB; a sixteenth of what was in use lately, or 1 MiB */
	SLAB_BUDGET_MUCH,   /* 16 MiB; half of what was in use lately, or 32 MiB */
	SLAB_BUDGET_MOST,   /* all; as much as was in use lately, or 32 MiB */
	SLAB_BUDGET_QUEUES, /* 8 MiB; half of what was in use lately, or 2 MiB */
};

bool slab_budget_init(void);
/* Makes @s share the budget; called while it is created. */
void slab_budget_join(struct kmem_cache *s);
/* How many caches share the budget so far; and cache number @i of these. */
unsigned int slab_budget_members(void);
struct kmem_cache *slab_budget_member(unsigned int i);
/* The member that is asked next to give room on @cpu; each call gives another one. */
unsigned int slab_budget_turn(unsigned int cpu);
/* Charges @objects of @s to the budget of @cpu. False: it would exceed that, or @part of the
 * budget of all CPUs. Caches that do not share the budget are never refused. */
bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			enum slab_budget_part part);
/* Charges @objects even if that exceeds the budget. */
void slab_budget_exceed(struct kmem_cache *s, unsigned int cpu, unsigned int objects);
void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects);
/* Counts that an array on @cpu asks for more than SLAB_BUDGET_LITTLE. Result: how many did. */
unsigned int slab_budget_ask(unsigned int cpu);
/* Bytes that arrays of a CPU should give up: those that are idle, and whichever. */
struct slab_budget_surplus {
	uint64_t of_idle, of_all;
};

/* Counts a move of objects on @cpu. Result: nothing, or, once in a period, what all CPUs hold
 * beyond SLAB_BUDGET_LITTLE, and, if @cpu is calm, what it holds beyond 1 MiB. */
struct slab_budget_surplus slab_budget_look(unsigned int cpu);
/* Looks at the clock each 1024 such moves, and notes whether @cpu is calm. For requests that
 * may enter the kernel. */
void slab_budget_look_at_pace(unsigned int cpu);
/* Bytes of all members' objects that are out of slabs, in use or in arrays: the most there were
 * lately, while @cpu asked. @bytes: what it moves now; the last 4 to 8 MiB count. */
uint64_t slab_budget_out(unsigned int cpu, unsigned int bytes);
/* Whether @cpu has arrays that are charged. There is a member. */
bool slab_budget_is_used(unsigned int cpu);
/* Bytes charged on all CPUs. */
uint64_t slab_budget_used(void);

#endif
