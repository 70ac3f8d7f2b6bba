// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A list without pages, of which each node of the cluster has a part: this node's rows, then those
 * of the others as they answer. The rows of a silent node are missing; `incomplete` and the field
 * Cloche-Incomplete say so. The directory cannot help: it knows sandboxes only.
 */
#include "api/api.h"

struct node_rows_kind {
	const char *array; /* that has the rows; NULL: they are the answer, and incomplete is not in
	                      it */
	void (*put_own)(struct http_req *req, struct json_writer *w); /* the rows of this node */
	/* Fields beside the array, of all nodes; may be NULL. */
	void (*put_more)(struct http_req *req, const struct peer_answers *answers,
	                 struct json_writer *w);
	bool tells_node; /* rows of other nodes get the field `node`; this node's have it */
};

/* 1: the answer comes later; 0: there are no other nodes. */
must_check int node_rows_begin(struct http_req *req, const struct node_rows_kind *kind,
                               struct err *err);

/* Cloche-Incomplete, where nodes have not answered. */
void node_tell_incomplete(struct http_req *req, const struct peer_answers *answers);
/* The name of this node where rows tell theirs, "" on a machine that is alone. */
const char *node_of_rows(const struct http_req *req);
