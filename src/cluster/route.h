// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which node answers a request that names an id: the decisions alone, without I/O.
 *
 *	client ─► A ─hop─► B	B owns the id and answers, or says `moved` to N, or `not found`
 *	          A ─hop─► N	after `moved`, A itself asks N: B never passes a hop on
 *
 * A node looks first at its own fleet, then at its forwarding cache, then at the id's tag. The
 * node of a tag has all forwarding rows of its tags, so what it does not know does not exist. Only
 * where that node is dead, or nobody has the tag, is the directory asked, at most once a request.
 *
 * It ends: a hop is not passed on, a node is asked once, and there are ROUTE_HOPS_MAX. A redirect
 * leads to the tag's living node and nowhere else, and that node redirects nothing with a tag of
 * its own: a client is sent on once.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define ROUTE_HOPS_MAX 4 /* the last is kept for what the directory says */

enum route_step {
	ROUTE_HERE,        /* this node has it */
	ROUTE_HOP,         /* pass the request to the node */
	ROUTE_REDIRECT,    /* 307 to the node */
	ROUTE_ASK,         /* ask the directory, then route_told() */
	ROUTE_MOVED,       /* tell the peer that the node has it */
	ROUTE_NOT_FOUND,   /* 404, also to a peer */
	ROUTE_UNREACHABLE, /* 503 node_unreachable */
	ROUTE_LOOP,        /* 508: a hop came back to the node that had sent it */
};

/* What this node knows of the request and its id. Nodes: 0 = none. */
struct route_facts {
	uint32_t self;
	uint32_t hop_from; /* the peer that passed it on; 0 = a client's own */
	uint32_t tagged;   /* the node whose tag the id has */
	uint32_t forward;  /* where the forwarding cache says it is */
	bool is_own;       /* it is in this node's fleet */
	bool may_redirect; /* `cluster.redirect`, and the client can follow: no stream, no name */
	bool (*is_alive)(uint32_t node, void *arg); /* by the newest figures; never asked of self */
	void *arg;
};

/* One request under way; zeroed before route_first(). */
struct route {
	uint32_t tried[ROUTE_HOPS_MAX];
	unsigned hops;
	bool has_asked; /* the directory */
};

enum route_answer {
	ROUTE_ANSWER_MOVED,     /* the peer names another node */
	ROUTE_ANSWER_NOT_FOUND, /* the peer does not know the id */
	ROUTE_ANSWER_FAILED,    /* it could not be reached, and has seen nothing of the request */
};

/* Each sets *ret_node where its step has one. */
enum route_step route_first(struct route *r, const struct route_facts *f, uint32_t *ret_node);
/* What the node that was tried last has said; node: of ROUTE_ANSWER_MOVED. */
enum route_step route_answered(struct route *r, const struct route_facts *f,
                               enum route_answer answer, uint32_t node, uint32_t *ret_node);
/* What the directory has said: 0 = nobody has it. */
enum route_step route_told(struct route *r, const struct route_facts *f, uint32_t node,
                           uint32_t *ret_node);
