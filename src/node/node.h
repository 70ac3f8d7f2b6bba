// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * This node among those of its cluster, as the gateway sees it: whether it may agree on something
 * with the others, and what they have agreed on. Behind it is the member, which asks the database
 * (cluster/message.h). All of it is on the loop's thread.
 *
 * What the database says is read as a stranger's text: an answer of another shape is as none.
 */
#include "base/json/json.h"
#include "cluster/word.h"
#include "event/event.h"
#include "loop/loop.h"
#include "tenant/quota.h"
#include "tenant/shared_key.h"

struct node;

/* answer: borrowed, an object; NULL: err says why there is none. */
typedef void (*node_answer_fn)(const json_t *answer, const struct err *err, void *arg);

struct node_config {
	struct loop *loop;
	struct keyring *keyring;
	struct quota *quota;
	struct store *store; /* NULL: what other nodes made last is not remembered */
	/* Sends a call, which is borrowed; fn is called once, never from inside. */
	void (*call)(const json_t *call, node_answer_fn fn, void *arg, void *link);
	/* The same with a file, which stays the caller's: of the store of objects. */
	void (*call_with_file)(const json_t *call, int fd, node_answer_fn fn, void *arg,
	                       void *link);
	void *link;
	uint64_t keys_stale_max_us; /* 0: as usual */
	struct event_log *events;   /* NULL: nothing is told */
	const char *boot_id;        /* borrowed */
	const char *lost_path;      /* a file of this node's own (lost.c); NULL: none */
};

struct node *node_new(const struct node_config *config);
void node_free(struct node *n); /* NULL is fine */
/* What the member has said; NULL: it is gone. */
void node_told(struct node *n, const struct cluster_word *word);

/* False also for NULL: this node is alone, and nothing below is asked. True until the member has
 * said the first word: what must not be done alone waits for it. */
/* How often all that this node has was to be compared with the database: each time another start of
 * PostgreSQL, which may have lost some. */
uint32_t node_n_compares(const struct node *n);
/* That all is compared, and in the rows again. Until each node has said so, nothing is removed from
 * the store of objects. */
void node_tell_objects(struct node *n, uint32_t n_compares);
/* What the last collection has found there (member/collect/collect.h); NULL: nothing is known. */
const json_t *node_objects(const struct node *n);
bool node_is_in(const struct node *n);
uint32_t node_number(const struct node *n);
enum fence_state node_state(const struct node *n);
/* Fails with cluster_unavailable while nothing can be agreed on. */
must_check int node_check(const struct node *n, struct err *err);
/* Fails on a node that others take for dead. NULL is fine for n. */
must_check int node_check_serves(const struct node *n, struct err *err);
int node_refuse(struct err *err, const char *why); /* cluster_unavailable, with Retry-After */
void node_call(struct node *n, const json_t *call, node_answer_fn fn, void *arg);
/* "result" of an answer, or "". */
const char *node_result(const json_t *answer);

/* Projects, keys and quotas (records.c, record_send.c, unknown_key.c). */

/* Fails where this node has not heard for so long whether keys were revoked that it believes none
 * any more. */
must_check int node_check_keys(const struct node *n, struct err *err);
enum node_ask {
	NODE_ASK_UNKNOWN, /* there is no such key */
	NODE_ASK_WAIT,    /* fn is called when that is known; then look again, and ask again */
	NODE_ASK_CUT,     /* nobody can be asked */
};
/* A key that this node does not know. However many there are, the database is asked five times a
 * second at most. */
enum node_ask node_ask_key(struct node *n, const char *secret, void (*fn)(void *arg), void *arg);
/* The same by its id. */
enum node_ask node_ask_key_id(struct node *n, const char *id, void (*fn)(void *arg), void *arg);
/* Behind that answer: UNKNOWN, or CUT if there was none. */
enum node_ask node_knows_unknown(const struct node *n);
/* A record that all are to have. It is this node's when fn is called without an err; err has the
 * database's reasons as those of a node that is alone. hash: of a key. */
struct node_record {
	const char *kind; /* project, key, quota */
	const char *id, *project_id, *unique;
	json_t *record; /* borrowed */
	bool is_gone;
};
typedef void (*node_done_fn)(const struct err *err, void *arg);
void node_put_record(struct node *n, const struct node_record *record, node_done_fn fn, void *arg);
void node_put_key(struct node *n, const struct key_draft *key, node_done_fn fn, void *arg);
void node_put_project(struct node *n, const char *id, const char *name, uint64_t created_us,
                      node_done_fn fn, void *arg);
void node_revoke_key(struct node *n, const char *project_id, const char *id, node_done_fn fn,
                     void *arg);
void node_remove_project(struct node *n, const char *id, node_done_fn fn, void *arg);

/* A project of this node made way for the cluster's of the same name, and nobody has used a key of
 * it: fn removes it, if it is empty. */
void node_on_unused_project(struct node *n, void (*fn)(const char *id, void *arg), void *arg);

/* names.c: names of sandboxes, and idempotency keys of their creates. */

struct node_taking {
	const char *project_id, *sandbox_id;
	const char *name;            /* NULL or "": none */
	const char *key;             /* an idempotency key; NULL: none */
	const unsigned char *digest; /* of the request, with a key */
};
/* The errnum of an err that says that the same request has made a sandbox on another node. */
#define NODE_MADE_ELSEWHERE EREMOTE
/* Both for this sandbox, or none; err as a node that is alone would say it. The sandbox has its row
 * already. */
void node_take(struct node *n, const struct node_taking *what, node_done_fn fn, void *arg);
/* The sandbox has its name no more; with_key: nor its idempotency key. Tried until it is done. NULL
 * is fine; an id of what has no names is passed over. */
void node_give(struct node *n, const char *sandbox_id, bool with_key);

/* leases.c: the parts of quotas that this node may use. */

/* fn is called when the database has answered about one, and at the latest then. -EAGAIN: too many
 * wait, or the time is over. */
must_check int node_await_quota(struct node *n, uint64_t until_us, void (*fn)(void *arg),
                                void *arg);

/* name_lookup.c: which node has the sandbox of a name. */

struct node_name {
	const char *project_id, *name;
	uint64_t since_us; /* steady; that nobody has it must have been found out after this */
};
/* node 0: nobody has it. */
typedef void (*node_found_fn)(uint32_t node, const struct err *err, void *arg);
/* 1: *ret_node has it, or nobody (0). 0: fn is called once, later. */
must_check int node_find_name(struct node *n, const struct node_name *wanted, uint32_t *ret_node,
                              node_found_fn fn, void *arg, struct err *err);
/* It is not where node_find_name() said. */
void node_forget_name(struct node *n, const char *project_id, const char *name);

struct node_sandboxes { /* of this node */
	bool (*has)(const char *id, void *arg);
	void (*each_named)(void (*fn)(const char *project_id, const char *id, const char *name,
	                              void *fn_arg),
	                   void *fn_arg, void *arg);
	/* All end with the cause node_lost; how many that was. */
	size_t (*end_all)(const char *why, void *arg);
};
/* What else has names that are the cluster's, such as the sandboxes of Vercel's wire. Said once,
 * before node_has_sandboxes(). NULL is fine for n. */
struct node_named {
	bool (*has)(const char *id, void *arg);
	void (*each_named)(void (*fn)(const char *project_id, const char *id, const char *name,
	                              void *fn_arg),
	                   void *fn_arg, void *arg);
};
void node_has_named(struct node *n, const struct node_named *named, void *arg);

/* All of them are known now. NULL is fine for n. */
void node_has_sandboxes(struct node *n, const struct node_sandboxes *sandboxes, void *arg);

/* telling.c: what the directory of the cluster knows of this node's sandboxes. */

struct node_telling {
	/* Of a sandbox that is alive or kept; NULL: of none. The caller owns it. */
	json_t *(*describe)(const char *id, const char **ret_project_id, void *arg);
	void (*each)(void (*fn)(const char *id, void *fn_arg), void *fn_arg, void *arg);
};
/* All of them are known now. NULL is fine for n. */
void node_tells(struct node *n, const struct node_telling *telling, void *arg);
/* A sandbox is new, is another than it was, or has gone. NULL is fine for n. */
void node_sandbox_changed(struct node *n, const char *id);
/* How many nodes the cluster has: with many, each tells less often. And this one's name in it. */
void node_set_others(struct node *n, size_t n_nodes, const char *name);
const char *node_own_name(const struct node *n); /* "": not known; NULL is fine for n */
