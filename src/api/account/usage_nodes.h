// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Usage of all nodes of a cluster: each node knows what it has measured, and its figures are added
 * up here. Those of a node that does not answer, or was removed, are the last that it has told the
 * database (node/usage_telling.h): by project and day, not by sandbox. The reply says which nodes
 * these are, and when they told it.
 *
 *	other nodes, at once --> database, of those that did not answer --> own rows, sums, reply
 */
#include "api/account/usage_rows.h"

/* 1: the reply comes later. 0: this node's rows are all. */
must_check int usage_nodes_begin(struct http_req *req, const struct usage_query *q,
                                 struct err *err);
