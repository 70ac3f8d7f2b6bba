// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The two keys that all nodes of a cluster share, in DATA/cluster/objects.keys, root's:
 *
 *	bytes 0 to 31	the brokers': it seals what one broker has made, so that the others mount it
 *	bytes 32 to 63	the members': it wraps the projects' keys (object/object_keys.h)
 *
 * `cluster init` makes them. They come to a node that joins through the database, wrapped by a key
 * that the token alone gives. The member that runs never has the first: it reads the second half
 * of the file alone.
 */
#include "member/papers/invitation.h"
#include "object/object_keys.h"
#include "object/object_seal.h"

#define NODE_KEYS      (OBJECT_SEAL_KEY + OBJECT_KEY)
#define NODE_KEYS_FILE "objects.keys"

bool node_keys_exist(const char *data_dir);
must_check int node_keys_make(const char *data_dir, struct err *err);
/* For the member. -ENOENT: this node has none. */
must_check int node_keys_read_wrapping(const char *data_dir, uint8_t ret[OBJECT_KEY]);
/* As they may lie in the database, for free(). NULL: this node has none. */
char *node_keys_wrap(const char *data_dir, const struct invitation *i);
/* -EBADMSG: the database has others than were put there. */
must_check int node_keys_take(const char *data_dir, const struct invitation *i, const char *wrapped,
                              struct err *err);
