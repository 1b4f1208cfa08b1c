/* SPDX-License-Identifier: MIT */
/* Circular doubly linked list; the head is an element without an owner. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/assert.h"
#include "base/compiler.h"

struct list_head {
	struct list_head *next, *prev;
};

static inline void list_init(struct list_head *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_empty(const struct list_head *l)
{
	return l->next == l;
}

static inline void list_insert_between(struct list_head *e, struct list_head *prev,
				       struct list_head *next)
{
	debug_assert(prev->next == next && next->prev == prev);
	e->prev = prev;
	e->next = next;
	prev->next = e;
	next->prev = e;
}

/* Inserts @e at the front. */
static inline void list_add(struct list_head *e, struct list_head *head)
{
	list_insert_between(e, head, head->next);
}

/* Inserts @e at the end. */
static inline void list_add_tail(struct list_head *e, struct list_head *head)
{
	list_insert_between(e, head->prev, head);
}

static inline void list_del(struct list_head *e)
{
	debug_assert(e->prev->next == e && e->next->prev == e);
	e->prev->next = e->next;
	e->next->prev = e->prev;
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)

#define list_for_each_entry(pos, head, member)                                                 \
	for (pos = list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head); \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

#define list_for_each_entry_safe(pos, tmp, head, member)                                       \
	for (pos = list_entry((head)->next, __typeof__(*pos), member),                         \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member);                      \
	     &pos->member != (head);                                                           \
	     pos = tmp, tmp = list_entry(tmp->member.next, __typeof__(*tmp), member))

#endif
