/* SPDX-License-Identifier: MIT */
/* What the tests of lists put into them. */
#ifndef COMPAT_NODES_H
#define COMPAT_NODES_H

#include <linux/list.h>

struct node {
	int value;
	struct list_head list;
	struct hlist_node hash;
};

/* The list's values as a number, from its first digit; -1: its links are no ring. */
static inline long digits(struct list_head *head)
{
	struct node *n;
	long forward = 0, backward = 0, scale = 1;

	list_for_each_entry (n, head, list)
		forward = forward * 10 + n->value;
	list_for_each_entry_reverse (n, head, list) {
		backward += scale * n->value;
		scale *= 10;
	}
	return forward == backward ? forward : -1;
}

#endif
