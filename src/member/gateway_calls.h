// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the gateway may ask of the database: a table of calls by name (CLUSTER_CALL of
 * cluster/message.h), each a function of the schema. The gateway cannot say whose node it is, nor
 * with which secret, epoch or number: the member adds them. The database's answer is passed on as
 * it is, if it fits; the gateway reads it as a stranger's.
 */
#include "cluster/fence.h"
#include "member/database/database.h"
#include "member/gateway_link.h"
#include "member/papers/node_file.h"

struct gateway_calls {
	struct database *work;
	const struct node_file *node; /* NULL: in no cluster */
	const char *node_text;        /* its number */
	uint64_t number;              /* of the last call that takes or frees */
	struct gateway_link *link;
	void (*rewound)(void *arg); /* the database counts fewer writes than before */
	void *arg;
	uint64_t written; /* how many writes the database has acknowledged */
};

/* Answered now or later, once. */
void gateway_calls_take(struct gateway_calls *c, uint32_t seq, const char *name, const json_t *call,
                        enum fence_state state, uint64_t epoch);
