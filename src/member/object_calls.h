// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the gateway may ask of the store of objects, each with a file (CLUSTER_CALL of
 * cluster/message.h):
 *
 *	put_object	{project_id, kind, generation, digest, bytes, class, seal, bases} and a
 *			file to read
 *	get_object	{project_id, kind, generation, digest, bytes} and an empty file to fill
 *
 * kind is "image" or "files".
 *
 * The project's key comes from the database, where it is stored wrapped (object/object_keys.h). The
 * first put of a project makes it. Each chunk that comes back is checked here. Only the broker can
 * tell whether the whole is what was sealed.
 */
#include "member/database/database.h"
#include "member/gateway_link.h"
#include "member/objects/store_pool.h"
#include "member/papers/node_file.h"

struct object_calls {
	struct store_pool *pool;     /* NULL: no objects are kept */
	const uint8_t *wrapping_key; /* NULL: this node has none */
	struct database *work;
	const struct node_file *node; /* NULL: in no cluster */
	const char *node_text;        /* its number */
	struct gateway_link *link;
};

bool object_calls_is(const char *name);
/* Owns fd. Answered now or later, once. */
void object_calls_take(struct object_calls *c, uint32_t seq, const char *name, const json_t *call,
                       int fd, uint64_t epoch);
