// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tags: the first four letters of an id say which node has made it, so that most calls find their
 * node without asking anybody. A node has TAGS_PER_NODE of them, drawn at random when it joins, and
 * picks one for each id: two ids do not betray that they are neighbours. 110 bits of an id stay
 * random.
 *
 * A tag says where an id was made, not where it is: what has moved, and what is older than the
 * cluster, has a forwarding row (route.h). A node that joins is given no tag that an id with such a
 * row begins with, unless it is that id's own node.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define TAG_LETTERS   4
#define TAG_COUNT     (1U << 20) /* 32 letters, four times */
#define TAGS_PER_NODE 16

/* The tag of an id, with its kind ("sb_…") or without, as E2B's clients write it; -1: it is no
 * id. */
int32_t tag_of(const char *id);
void tag_put(char *id, uint32_t tag); /* writes it into an id of id_make() */

struct tag_row {
	uint32_t tag, node; /* nodes are numbered from 1 */
};

/* All tags of the cluster. */
struct tag_map {
	struct tag_row *rows; /* in order */
	size_t n;
};

/* Copies the rows. -EINVAL: a row has no tag or no node; -EEXIST: two have the same tag; the map
 * stays as it was. */
must_check int tag_map_set(struct tag_map *map, const struct tag_row *rows, size_t n);
uint32_t tag_map_find(const struct tag_map *map, uint32_t tag); /* its node; 0: nobody's */
void tag_map_done(struct tag_map *map);
