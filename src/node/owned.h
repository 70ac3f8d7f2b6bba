// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sandboxes that outlive their node (`on_node_loss: "restore"`): which of them are this node's. The
 * database has a row for each that has a durable generation (src/cluster/schema-11.sql). A node may
 * run what it owns while it has the right (cluster/fence.h), and has compared its own with the rows
 * since it joined.
 *
 *	join, a claim of this node, 30 s --> take over --> rows --> compare --> moved rows
 *
 * take over: what nodes had that were claimed, or removed. compare: what is another node's by now
 * goes from here; what is this node's and not here is read, opened and made, as a sandbox that is
 * stopped. moved rows: which nodes have the others, with a tag of this one or once its own.
 *
 * What a row says is sealed by a gateway: the database can neither read nor make it. The seal
 * covers project, sandbox and generation. It can hand out an older row of the same sandbox.
 */
#include "node/node.h"

#define NODE_OWNED_MAX 23000 /* bytes of a record */

struct node_owned {
	const char *id, *project_id, *generation;
	const char *record; /* of JSON; a stranger's text no more once it is opened */
	uint64_t term;      /* 0: it has no row yet, as far as this node knows */
	uint64_t lost_ms;
	const char *from; /* the node that had it before; "" = not known */
};

enum owned_fate {
	OWNED_MOVED,   /* another node has it, or this one in a later term */
	OWNED_GONE,    /* it was deleted */
	OWNED_UNKNOWN, /* there is no row: one that was set back */
};

struct node_owners {                 /* who has the sandboxes */
	bool (*may_take)(void *arg); /* more of them */
	bool (*has)(const char *id, void *arg);
	/* Those that have a row, or may have one. */
	void (*each)(void (*fn)(const char *id, uint64_t term, void *fn_arg), void *fn_arg,
	             void *arg);
	/* Its row as it is there; what it did not know. */
	void (*learn)(const char *id, uint64_t term, const char *generation, void *arg);
	void (*end)(const char *id, enum owned_fate fate, void *arg);
	/* It is this node's and not here. */
	int (*take)(const struct node_owned *what, struct err *err, void *arg);
	/* node_owns() may say something else; also again and again while it says no. */
	void (*changed)(void *arg);
};
/* Once, when all sandboxes are known. NULL is fine for n. */
void node_has_owned(struct node *n, const struct node_owners *owners, void *arg);

/* Whether this node may run what it owns. NULL: it is alone, and may. */
bool node_owns(const struct node *n);
enum owned_result {
	OWNED_OK,
	OWNED_ELSEWHERE, /* or gone: the next comparison tells what has become of it */
	OWNED_REFUSED,   /* err says why; it may be tried again */
};
typedef void (*node_own_fn)(enum owned_result result, uint64_t term, const struct err *err,
                            void *arg);
/* what->record is copied. -E2BIG: the record is too long. -EAGAIN: there is no key yet. */
must_check int node_own(struct node *n, const struct node_owned *what, uint64_t age_ms,
                        node_own_fn fn, void *arg);
void node_disown(struct node *n, const char *project_id, const char *id, node_own_fn fn, void *arg);
/* The node that has a sandbox with a tag of this one; 0: not known. */
uint32_t node_forward(const struct node *n, const char *id);
/* Compares soon, as something seems to be elsewhere. */
void node_compare_owned(struct node *n);
