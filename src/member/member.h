// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The member of a node: it says beats to the database, watches other nodes' beats, fences its own
 * node when beats are not answered, and signs certificates of nodes that it has invited. All
 * decisions are those of src/cluster; here is what moves them.
 */
#include "base/json/json.h"
#include "loop/loop.h"
#include "member/name_resolver.h"
#include "member/papers/authority.h"
#include "member/papers/conninfo.h"
#include "member/papers/node_file.h"
#include "member/papers/signing.h"
#include "member/papers/trouble.h"

#define MEMBER_SCHEMA 11 /* the number of the schema that this program knows */

struct member;
struct objects_check;
struct store_pool;

struct member_config {
	struct loop *loop;
	struct name_resolver *resolver;
	const struct node_file *node; /* NULL: not in a cluster; borrowed, as the others */
	const struct conninfo *conninfo;
	const struct authority_pems *authority; /* key NULL: it signs nothing */
	struct signing_dirs dirs;               /* as the member sees them */
	const char *certificate_dir;            /* the same */
	/* What it joined with; NULL: it has no certificate yet, and speaks with no peer. */
	const char *key, *certificate;
	struct store_pool *store;          /* NULL: no objects are kept */
	const struct objects_check *check; /* whether the store can be used; NULL likewise */
	const uint8_t *wrapping_key;       /* of the projects' keys; NULL: this node has none */
	uint64_t collect_us; /* between two collections of objects; 0: this node does none */
	unsigned collect_most;
	enum trouble trouble; /* that it cannot start with; its message */
	const char *message;
};

struct member *member_new(const struct member_config *config);
/* The socket to the gateway (gateway_link.h), which the member then owns: the loop stops when it
 * ends. Before member_start(). */
must_check int member_link(struct member *m, int fd);
void member_start(struct member *m);
json_t *member_status(const struct member *m);         /* for json_decref() */
json_t *member_collect_status(const struct member *m); /* of the store of objects; the same */
