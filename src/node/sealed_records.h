// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Records of all nodes that the cluster's database keeps and hands out, but can neither read nor
 * make: secrets and webhooks. Each is sealed (secret/sealed_text.h) under a key that the gateways
 * of the cluster share, and which neither database nor member has. What is authenticated with it:
 * kind, id, project, the number of its state, its time, and whether it was removed. So a record of
 * another project, a forged one, and a forged removal are refused.
 *
 *	own tables --> describe() --> sealed --> database --> opened --> take() --> own tables
 *
 * A later state has a higher version; of two with the same one, the later time holds. This node
 * remembers which state it has taken of each, also of those that were removed. So an older state
 * that is told again is not taken; the newer one is said to the database once more. A node that
 * knows nothing yet cannot tell whether the database hands it an old state.
 *
 * Other nodes hear of a change with their next beat. Who meets something unknown before that asks
 * (node_ask_fresh()).
 */
#include "node/node.h"

#define NODE_SEALED_MAX 23000 /* bytes of a content */

struct node_sealed {
	const char *kind; /* "secret", "webhook" */
	const char *id, *project_id;
	uint64_t version, changed_us; /* of this state */
	const char *content;          /* of JSON; NULL: it was removed, or is not told */
};

struct node_sealed_kind {
	const char *kind;
	/* Into this node's own tables. content is a stranger's text. */
	int (*take)(const struct node_sealed *what, struct err *err, void *arg);
	/* The content of what this node has, for sealed_text_wipe(); NULL: it has none, or cannot
	 * read it. */
	char *(*describe)(const char *project_id, const char *id, void *arg);
	/* All that this node has, without their contents. */
	void (*each)(void (*fn)(const struct node_sealed *what, void *fn_arg), void *fn_arg,
	             void *arg);
	/* The project was removed from the cluster. */
	void (*forget)(const char *project_id, void *arg);
};
/* Said once for each kind. NULL is fine for n. */
void node_has_sealed(struct node *n, const struct node_sealed_kind *kind, void *arg);

/* Somebody who can ask this node's broker for the key. NULL is fine for n. */
void node_on_key_wanted(struct node *n, void (*fn)(void *arg), void *arg);
void node_take_key(struct node *n, const uint8_t key[32]); /* NULL: there is none, for now */

/* A text of another kind, sealed with the same key: the label says whose it is, and it opens with
 * that alone. What is made is the caller's; NULL: there is no key, or no room. */
bool node_has_key(const struct node *n);
char *node_make_sealed(const struct node *n, const char *label, const char *text);
must_check int node_open_sealed(const struct node *n, const char *label, const char *sealed,
                                char **ret, struct err *err);

/* The errnum of an err that says that another node has made a later state meanwhile. */
#define NODE_CHANGED_MEANWHILE ESTALE
/* The next state of it, for all nodes. Its version is made here: above what->version, and above all
 * that are known. fn is called when the database has it and take() was called. < 0: err says why
 * that cannot be. */
must_check int node_put_sealed(struct node *n, const struct node_sealed *what, node_done_fn fn,
                               void *arg, struct err *err);
/* Whether all that other nodes had changed at this time (steady) is known here. WAIT: fn is called
 * when it is; then look again. */
enum node_ask node_ask_fresh(struct node *n, uint64_t since_us, void (*fn)(void *arg), void *arg);
