// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A ring of links that live inside their objects. A link that is on no list points at itself. */
#include "base/auto.h"

#include <stdbool.h>

struct list {
	struct list *prev, *next;
};

#define LIST_INIT(l)                                                                               \
	{                                                                                          \
		.prev = &(l), .next = &(l)                                                         \
	}

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *l) /* l becomes the last */
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void list_remove(struct list *l) /* twice is fine */
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#define list_entry(l, type, member) container_of(l, type, member)
#define list_first(head, type, member)                                                             \
	(list_empty(head) ? NULL : list_entry((head)->next, type, member))

/* The current entry may be removed or freed inside the loop; no other may. */
#define list_for_each(head, type, it, member)                                                      \
	for (type *it = list_entry((head)->next, type, member),                                    \
	          *it##_next = list_entry(it->member.next, type, member);                          \
	     &it->member != (head);                                                                \
	     it = it##_next, it##_next = list_entry(it##_next->member.next, type, member))
