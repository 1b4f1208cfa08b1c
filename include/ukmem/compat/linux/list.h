/* SPDX-License-Identifier: MIT */
/*
 * <linux/list.h> - lists that are linked through a member of their elements.
 *
 * list_head: a ring; its head is linked like an element. hlist: a list whose head is one
 * pointer, for hash tables; an element has the address of the pointer that leads to it.
 */
#ifndef UKMEM_COMPAT_LINUX_LIST_H
#define UKMEM_COMPAT_LINUX_LIST_H

#include <stdbool.h>

#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/types.h>

/* Pointers of elements that were taken out: following one faults. */
#define LIST_POISON1 ((void *)0x101)
#define LIST_POISON2 ((void *)0x202)

#define LIST_HEAD_INIT(name)                                                                   \
	{                                                                                      \
		&(name), &(name)                                                               \
	}
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

/* Makes @left and @right neighbours. */
static inline void ukmem_list_join(struct list_head *left, struct list_head *right)
{
	left->next = right;
	right->prev = left;
}

static inline void ukmem_list_insert(struct list_head *e, struct list_head *left,
				     struct list_head *right)
{
	ukmem_list_join(left, e);
	ukmem_list_join(e, right);
}

/* Inserts @e behind @head, as for a stack. */
static inline void list_add(struct list_head *e, struct list_head *head)
{
	ukmem_list_insert(e, head, head->next);
}

/* Inserts @e in front of @head, as for a queue. */
static inline void list_add_tail(struct list_head *e, struct list_head *head)
{
	ukmem_list_insert(e, head->prev, head);
}

static inline void list_del(struct list_head *e)
{
	ukmem_list_join(e->prev, e->next);
	e->next = (struct list_head *)LIST_POISON1;
	e->prev = (struct list_head *)LIST_POISON2;
}

static inline void list_del_init(struct list_head *e)
{
	ukmem_list_join(e->prev, e->next);
	INIT_LIST_HEAD(e);
}

/* @e takes the place of @old. An empty list's head has no neighbours but itself. */
static inline void list_replace(struct list_head *old, struct list_head *e)
{
	if (old->next == old)
		INIT_LIST_HEAD(e);
	else
		ukmem_list_insert(e, old->prev, old->next);
}

static inline void list_replace_init(struct list_head *old, struct list_head *e)
{
	list_replace(old, e);
	INIT_LIST_HEAD(old);
}

/* @a and @b, each on a list, change places. */
static inline void list_swap(struct list_head *a, struct list_head *b)
{
	struct list_head *left = b->prev;

	list_del(b);
	list_replace(a, b);
	list_add(a, left == a ? b : left);
}

/* For a reader that looks with list_empty_careful() and no lock. */
static inline void list_del_init_careful(struct list_head *e)
{
	ukmem_list_join(e->prev, e->next);
	WRITE_ONCE(e->prev, e);
	__atomic_store_n(&e->next, e, __ATOMIC_RELEASE);
}

static inline void list_move(struct list_head *e, struct list_head *head)
{
	ukmem_list_join(e->prev, e->next);
	list_add(e, head);
}

static inline void list_move_tail(struct list_head *e, struct list_head *head)
{
	ukmem_list_join(e->prev, e->next);
	list_add_tail(e, head);
}

static inline int list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

static inline int list_empty_careful(const struct list_head *head)
{
	struct list_head *next = __atomic_load_n(&head->next, __ATOMIC_ACQUIRE);

	return next == head && READ_ONCE(head->prev) == head;
}

static inline int list_is_first(const struct list_head *e, const struct list_head *head)
{
	return e->prev == head;
}

static inline int list_is_last(const struct list_head *e, const struct list_head *head)
{
	return e->next == head;
}

static inline int list_is_head(const struct list_head *e, const struct list_head *head)
{
	return e == head;
}

static inline int list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline void list_rotate_left(struct list_head *head)
{
	if (!list_empty(head))
		list_move_tail(head->next, head);
}

/* @e becomes the first. */
static inline void list_rotate_to_front(struct list_head *e, struct list_head *head)
{
	list_move_tail(head, e);
}

/* Elements @first to @last of one list move in front of @head. */
static inline void list_bulk_move_tail(struct list_head *head, struct list_head *first,
				       struct list_head *last)
{
	ukmem_list_join(first->prev, last->next);
	ukmem_list_join(head->prev, first);
	ukmem_list_join(last, head);
}

/* Inserts all elements of @list between @left and @right; its head keeps its pointers. */
static inline void ukmem_list_splice(const struct list_head *list, struct list_head *left,
				     struct list_head *right)
{
	if (list_empty(list))
		return;
	ukmem_list_join(left, list->next);
	ukmem_list_join(list->prev, right);
}

static inline void list_splice(const struct list_head *list, struct list_head *head)
{
	ukmem_list_splice(list, head, head->next);
}

static inline void list_splice_tail(const struct list_head *list, struct list_head *head)
{
	ukmem_list_splice(list, head->prev, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

/* The elements of @head up to @e, which is one of them or the head, become @list. */
static inline void list_cut_position(struct list_head *list, struct list_head *head,
				     struct list_head *e)
{
	struct list_head *rest = e->next;

	INIT_LIST_HEAD(list);
	if (e == head || list_empty(head))
		return;
	ukmem_list_join(list, head->next);
	ukmem_list_join(e, list);
	ukmem_list_join(head, rest);
}

/* The same without @e. */
static inline void list_cut_before(struct list_head *list, struct list_head *head,
				   struct list_head *e)
{
	if (head->next == e)
		INIT_LIST_HEAD(list);
	else
		list_cut_position(list, head, e->prev);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
/* Reads the head once: without a lock another thread may empty the list meanwhile. */
#define list_first_entry_or_null(head, type, member)                                           \
	__extension__({                                                                        \
		struct list_head *ukmem_head = (head);                                         \
		struct list_head *ukmem_first = READ_ONCE(ukmem_head->next);                   \
		ukmem_first != ukmem_head ? list_entry(ukmem_first, type, member) : NULL;      \
	})
#define list_last_entry_or_null(head, type, member)                                            \
	(list_empty(head) ? NULL : list_last_entry(head, type, member))
#define list_next_entry(pos, member) list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_prev_entry(pos, member) list_entry((pos)->member.prev, __typeof__(*(pos)), member)
#define list_entry_is_head(pos, head, member) (&(pos)->member == (head))

#define list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_prev(pos, head) for (pos = (head)->prev; pos != (head); pos = pos->prev)
/* The _safe forms: @pos may be taken out meanwhile. */
#define list_for_each_safe(pos, n, head)                                                       \
	for (pos = (head)->next, n = pos->next; pos != (head); pos = n, n = pos->next)
#define list_for_each_prev_safe(pos, n, head)                                                  \
	for (pos = (head)->prev, n = pos->prev; pos != (head); pos = n, n = pos->prev)
#define list_for_each_continue(pos, head)                                                      \
	for (pos = (pos)->next; pos != (head); pos = pos->next)

#define list_for_each_entry(pos, head, member)                                                 \
	for (pos = list_first_entry(head, __typeof__(*pos), member);                           \
	     !list_entry_is_head(pos, head, member); pos = list_next_entry(pos, member))
#define list_for_each_entry_reverse(pos, head, member)                                         \
	for (pos = list_last_entry(head, __typeof__(*pos), member);                            \
	     !list_entry_is_head(pos, head, member); pos = list_prev_entry(pos, member))
#define list_for_each_entry_continue(pos, head, member)                                        \
	for (pos = list_next_entry(pos, member); !list_entry_is_head(pos, head, member);       \
	     pos = list_next_entry(pos, member))
#define list_for_each_entry_from(pos, head, member)                                            \
	for (; !list_entry_is_head(pos, head, member); pos = list_next_entry(pos, member))
#define list_for_each_entry_safe(pos, n, head, member)                                         \
	for (pos = list_first_entry(head, __typeof__(*pos), member),                           \
	    n = list_next_entry(pos, member);                                                  \
	     !list_entry_is_head(pos, head, member); pos = n, n = list_next_entry(n, member))
#define list_for_each_entry_safe_continue(pos, n, head, member)                                \
	for (pos = list_next_entry(pos, member), n = list_next_entry(pos, member);             \
	     !list_entry_is_head(pos, head, member); pos = n, n = list_next_entry(n, member))
#define list_for_each_entry_safe_from(pos, n, head, member)                                    \
	for (n = list_next_entry(pos, member); !list_entry_is_head(pos, head, member);         \
	     pos = n, n = list_next_entry(n, member))
/* In a _safe loop whose list was unlocked meanwhile: @n anew. */
#define list_safe_reset_next(pos, n, member) n = list_next_entry(pos, member)
/* Where list_for_each_entry_continue() begins: behind @pos; NULL: with the first. */
#define list_prepare_entry(pos, head, member)                                                  \
	((pos) ? (pos) : list_entry(head, __typeof__(*(pos)), member))
#define list_for_each_entry_continue_reverse(pos, head, member)                                \
	for (pos = list_prev_entry(pos, member); !list_entry_is_head(pos, head, member);       \
	     pos = list_prev_entry(pos, member))
#define list_for_each_entry_from_reverse(pos, head, member)                                    \
	for (; !list_entry_is_head(pos, head, member); pos = list_prev_entry(pos, member))
#define list_for_each_entry_safe_reverse(pos, n, head, member)                                 \
	for (pos = list_last_entry(head, __typeof__(*pos), member),                            \
	    n = list_prev_entry(pos, member);                                                  \
	     !list_entry_is_head(pos, head, member); pos = n, n = list_prev_entry(n, member))

static inline size_t list_count_nodes(const struct list_head *head)
{
	const struct list_head *pos;
	size_t n = 0;

	list_for_each (pos, head)
		n++;
	return n;
}

#define HLIST_HEAD_INIT                                                                        \
	{                                                                                      \
		NULL                                                                           \
	}
#define HLIST_HEAD(name) struct hlist_head name = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(head) ((void)((head)->first = NULL))

static inline void INIT_HLIST_NODE(struct hlist_node *e)
{
	e->next = NULL;
	e->pprev = NULL;
}

/* Not on a list: as INIT_HLIST_NODE and hlist_del_init leave it. */
static inline int hlist_unhashed(const struct hlist_node *e)
{
	return !e->pprev;
}

#define hlist_unhashed_lockless(e) (!READ_ONCE((e)->pprev))

/* An element on no list that hlist_del() may take out all the same. */
static inline void hlist_add_fake(struct hlist_node *e)
{
	e->pprev = &e->next;
}

static inline bool hlist_fake(struct hlist_node *e)
{
	return e->pprev == &e->next;
}

static inline int hlist_empty(const struct hlist_head *head)
{
	return !READ_ONCE(head->first);
}

/* @e where *@where leads to now. */
static inline void ukmem_hlist_insert(struct hlist_node *e, struct hlist_node **where)
{
	e->next = *where;
	e->pprev = where;
	if (e->next)
		e->next->pprev = &e->next;
	*where = e;
}

static inline void hlist_add_head(struct hlist_node *e, struct hlist_head *head)
{
	ukmem_hlist_insert(e, &head->first);
}

static inline void hlist_add_before(struct hlist_node *e, struct hlist_node *next)
{
	ukmem_hlist_insert(e, next->pprev);
}

static inline void hlist_add_behind(struct hlist_node *e, struct hlist_node *prev)
{
	ukmem_hlist_insert(e, &prev->next);
}

static inline void ukmem_hlist_remove(struct hlist_node *e)
{
	*e->pprev = e->next;
	if (e->next)
		e->next->pprev = e->pprev;
}

static inline void hlist_del(struct hlist_node *e)
{
	ukmem_hlist_remove(e);
	e->next = (struct hlist_node *)LIST_POISON1;
	e->pprev = (struct hlist_node **)LIST_POISON2;
}

static inline void hlist_del_init(struct hlist_node *e)
{
	if (hlist_unhashed(e))
		return;
	ukmem_hlist_remove(e);
	INIT_HLIST_NODE(e);
}

static inline bool hlist_is_singular_node(struct hlist_node *e, struct hlist_head *head)
{
	return !e->next && e->pprev == &head->first;
}

static inline void hlist_move_list(struct hlist_head *old, struct hlist_head *head)
{
	head->first = old->first;
	if (head->first)
		head->first->pprev = &head->first;
	old->first = NULL;
}

#define hlist_entry(ptr, type, member) container_of(ptr, type, member)
#define hlist_entry_safe(ptr, type, member)                                                    \
	__extension__({                                                                        \
		struct hlist_node *ukmem_node = (ptr);                                         \
		ukmem_node ? hlist_entry(ukmem_node, type, member) : NULL;                     \
	})
#define hlist_for_each(pos, head) for (pos = (head)->first; pos; pos = pos->next)
#define hlist_for_each_safe(pos, n, head)                                                      \
	for (pos = (head)->first; pos && (n = pos->next, 1); pos = n)
#define hlist_for_each_entry(pos, head, member)                                                \
	for (pos = hlist_entry_safe((head)->first, __typeof__(*(pos)), member); pos;           \
	     pos = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
#define hlist_for_each_entry_continue(pos, member)                                             \
	for (pos = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member); pos;      \
	     pos = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
#define hlist_for_each_entry_from(pos, member)                                                 \
	for (; pos; pos = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
/* @n is a struct hlist_node *. */
#define hlist_for_each_entry_safe(pos, n, head, member)                                        \
	for (pos = hlist_entry_safe((head)->first, __typeof__(*(pos)), member);                \
	     pos && (n = (pos)->member.next, 1);                                               \
	     pos = hlist_entry_safe(n, __typeof__(*(pos)), member))

#endif
