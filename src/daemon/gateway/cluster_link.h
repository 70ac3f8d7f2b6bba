// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the socket to the member (src/member/gateway_link.h is the other; they speak
 * cluster/message.h): the member reports this node's state in its cluster and the other nodes, and
 * the gateway sends it calls. If the member dies, its last report stays; the launcher starts
 * another member, whose socket is attached here.
 *
 * The gateway trusts the member no more than a stranger: it checks each message, and a wrong one
 * ends the socket, and so the member.
 */
#include "base/json/json.h"
#include "cluster/message.h"
#include "loop/loop.h"

struct cluster_link;
struct packets;

/* What was asked is answered. error: 0, or a negative errno, and message says why; then there is
 * nothing else. -EPIPE: the member is gone. */
struct cluster_reply {
	int error;
	const char *message;
	int fd;       /* of cluster_link_open(): the callee's */
	json_t *json; /* of cluster_link_call(): borrowed; an object, which may have "error" */
};
typedef void (*cluster_reply_fn)(const struct cluster_reply *reply, void *arg);

struct cluster_link_ops {
	/* A peer's stream; fd is the callee's. */
	void (*arrived)(uint32_t from, int fd, void *arg);
	void (*nodes)(void *arg); /* the directory is another */
};

struct cluster_link { /* zero: this node is alone */
	struct loop *loop;
	struct packets *packets;  /* NULL: no member */
	struct cluster_word word; /* the last one */
	/* The directory: in the order of their numbers. */
	struct cluster_node_row *nodes;
	size_t n_nodes;
	struct tag_map tags;
	struct cluster_node_row *coming; /* a list whose last row is not there yet */
	size_t n_coming, total_coming;
	struct cluster_ask **asks; /* under way */
	size_t n_asks;
	uint32_t last_seq;
	/* What the member has said; NULL: it is gone. May be NULL itself. */
	void (*told)(const struct cluster_word *word, void *arg);
	void *told_arg;
	const struct cluster_link_ops *ops; /* NULL: nobody wants streams */
	void *arg;
};

void cluster_link_attach(struct cluster_link *l, struct loop *loop, int fd); /* -1: does nothing */
void cluster_link_done(struct cluster_link *l);
/* Whether there is a cluster, and this node is in it. */
static inline bool cluster_link_is_in(const struct cluster_link *l)
{
	return l->n_nodes > 0 && l->word.node != 0;
}
const struct cluster_node_row *cluster_link_node(const struct cluster_link *l,
                                                 uint32_t node); /* or NULL */

/* Asks for a stream to a node's gateway. fn is called once, never before it returns. */
void cluster_link_open(struct cluster_link *l, uint32_t node, cluster_reply_fn fn, void *arg);
/* Asks something of the database: an object with "call". fn is called once, likewise. */
void cluster_link_call(struct cluster_link *l, const json_t *call, cluster_reply_fn fn, void *arg);
/* The same of the store of objects, with a file, which stays the caller's. */
void cluster_link_call_with(struct cluster_link *l, const json_t *call, int fd, cluster_reply_fn fn,
                            void *arg);
/* Whoever asked does not want the answer any more. */
void cluster_link_forget(struct cluster_link *l, const void *arg);
