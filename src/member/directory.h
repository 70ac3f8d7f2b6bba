// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The nodes of the cluster, as the database tells of them: rows for the gateway, in the order of
 * their numbers. */
#include "base/json/json.h"
#include "cluster/message.h"

#include <stdbool.h>

struct directory {
	struct cluster_node_row *nodes;
	size_t n;
	uint64_t number; /* of its last change */
};

/* The answer of the function directory. -EINVAL, -EEXIST: two nodes have the same tag, or a row
 * cannot be told; what was known stays. */
must_check int directory_set(struct directory *d, const json_t *answer);
const struct cluster_node_row *directory_find(const struct directory *d, uint32_t node);
const struct cluster_node_row *directory_named(const struct directory *d, const char *name);
void directory_done(struct directory *d);
