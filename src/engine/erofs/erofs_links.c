// SPDX-License-Identifier: Apache-2.0
#include "engine/erofs/erofs_links.h"

#include <uthash.h>

struct erofs_link {
	struct {
		uint64_t id;
		uint64_t is_added;
	} key;
	struct erofs_node *node;
	UT_hash_handle hh;
};

struct erofs_node *erofs_links_find(const struct erofs_links *links, uint64_t id, bool is_added)
{
	const struct erofs_link wanted = {.key = {id, is_added}};
	struct erofs_link *l;

	HASH_FIND(hh, links->all, &wanted.key, sizeof(wanted.key), l);
	return l ? l->node : NULL;
}

void erofs_links_add(struct erofs_links *links, uint64_t id, bool is_added, struct erofs_node *node)
{
	struct erofs_link *l = xnew0(struct erofs_link);

	l->key.id = id;
	l->key.is_added = is_added;
	l->node = node;
	HASH_ADD(hh, links->all, key, sizeof(l->key), l);
}

void erofs_links_done(struct erofs_links *links)
{
	struct erofs_link *l, *next;

	HASH_ITER (hh, links->all, l, next) {
		HASH_DEL(links->all, l);
		free(l);
	}
}
