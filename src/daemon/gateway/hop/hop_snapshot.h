// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A create whose only tie to another node is its snapshot. That node makes the sandbox if it is
 * reached, is not cordoned and has room. Else this node makes it, after it has fetched the snapshot
 * if that is durable (build/shared/shared_snapshot.h).
 */
#include "daemon/gateway/hop/hop_private.h"

/* 1: the node answers, or http_go_on() follows; 0: it is for this node. */
must_check int hop_snapshot_lead(struct hops *h, struct http_req *req, uint32_t node,
                                 struct err *err);
/* The snapshot was not fetched, because it is not durable: its node is away. 0: it is this node's.
 */
int hop_snapshot_refuse(const struct hops *h, const struct http_req *req, struct err *err);
bool hop_snapshot_is_named(const struct http_req *req); /* by the create's body, by its id */
