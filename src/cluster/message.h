// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What gateway and member say to each other, over one SOCK_SEQPACKET socket. Each message begins
 * with a head; a stream's descriptor comes with its message (SCM_RIGHTS). Neither side believes
 * the other about lengths, counts or kinds: a message that is wrong ends the socket.
 *
 *	member ─► gateway	WORD at each change, NODES at each change
 *	gateway ─► member	OPEN: a stream to a node's gateway	◄─ OPENED, with the stream
 *	member ─► gateway	ARRIVED: a peer's stream, which speaks HTTP/1.1
 *	gateway ─► member	CALL: something of the database, or of the
 *				store of objects, with a file	◄─ ANSWER
 *
 * seq is the asker's own number, never 0; the answer has the same. Calls that were not answered
 * when the member ends have failed, and the gateway tells those who wait. A message that is no
 * answer and wants none has seq 0.
 *
 * The two ends are src/daemon/gateway/cluster_link.h and src/member/gateway_link.h.
 */
#include "cluster/tag.h"
#include "cluster/word.h"

#include <assert.h>

#define CLUSTER_MESSAGE_MAX (64 * 1024)
#define CLUSTER_NODES_MAX   240 /* rows of one message; more come as further ones */
#define CLUSTER_NODES_TOTAL 16384
#define CLUSTER_ASKS_MAX    4096       /* under way; the gateway asks no more */
#define CLUSTER_NO_TAG      UINT32_MAX /* in the place of a tag that a node has not */

enum cluster_message {
	CLUSTER_WORD = 1,
	CLUSTER_NODES,
	CLUSTER_OPEN,
	CLUSTER_OPENED,
	CLUSTER_ARRIVED,
	CLUSTER_CALL,
	CLUSTER_ANSWER,
};

struct cluster_head {
	uint32_t kind; /* of enum cluster_message */
	uint32_t seq;
};

struct cluster_told {
	struct cluster_head head;
	struct cluster_word word;
};

struct cluster_node_row {
	uint32_t node;
	uint32_t is_alive; /* by the newest figures */
	uint32_t is_cordoned;
	uint32_t tags[TAGS_PER_NODE];
	char name[64];
	char address[128]; /* HOST:PORT of its member */
};

/* All nodes, this one among them: first = 0 begins a new list, which holds when its last row is
 * there. */
struct cluster_nodes {
	struct cluster_head head;
	uint32_t first, n, total;
	struct cluster_node_row rows[];
};

struct cluster_open {
	struct cluster_head head;
	uint32_t node;
};

struct cluster_opened {
	struct cluster_head head;
	int32_t error; /* 0: a descriptor comes with it; else a negative errno */
	char message[200];
};

struct cluster_arrived {
	struct cluster_head head;
	uint32_t from; /* the node of the peer's certificate */
};

/* JSON behind the head, to the message's end; {"call": NAME, …}. An answer has "error" {code,
 * message} or the call's own fields. */
struct cluster_call {
	struct cluster_head head;
	char json[];
};

static_assert(sizeof(struct cluster_nodes) + CLUSTER_NODES_MAX * sizeof(struct cluster_node_row) <=
                      CLUSTER_MESSAGE_MAX,
              "the largest list of nodes is no message");
