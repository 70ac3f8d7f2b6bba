// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Files with several names, while two images become one: which node each of them has. A file is
 * known by its image and its inode there. */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

struct erofs_node;
struct erofs_link;

struct erofs_links {
	struct erofs_link *all; /* zero: none */
};

struct erofs_node *erofs_links_find(const struct erofs_links *links, uint64_t id, bool is_added);
void erofs_links_add(struct erofs_links *links, uint64_t id, bool is_added,
                     struct erofs_node *node);
void erofs_links_done(struct erofs_links *links);
