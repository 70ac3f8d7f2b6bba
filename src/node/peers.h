// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the other nodes of the cluster answer to the same request: for lists, of which each node has
 * a part. The gateway asks them (daemon/gateway/hop/hop_gather.h); who asks puts the parts
 * together.
 */
#include "base/json/json.h"

#define PEER_NAME_SIZE 64
#define PEER_WHY_SIZE  160

struct peer_answer {
	uint32_t node;
	char name[PEER_NAME_SIZE];
	char why[PEER_WHY_SIZE]; /* there is no answer of it; "" = there is one */
	json_t *body;   /* borrowed; an object or array, as a stranger's text; NULL with why */
	bool has_more;  /* X-Next-Token came with it */
	uint64_t total; /* of X-Total-Running */
};

struct peer_answers {
	const char *self; /* the name of this node */
	const struct peer_answer *at;
	size_t n;
	/* Why there may be nodes that this one does not know of; "" = there are none. */
	const char *unsure;
};
typedef void (*peers_fn)(const struct peer_answers *answers, void *arg);
