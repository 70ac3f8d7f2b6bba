// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A client's GET of a list, asked of all other nodes at the same time, so that what was made on one
 * of them a moment ago is in the answer. Where there are more than GATHER_MAX others, none is
 * asked: each has its reason for not having answered, and the caller turns to the directory.
 */
#include "daemon/gateway/hop/hop.h"
#include "node/peers.h"

#define GATHER_MAX 32

/* 1: fn is called once, later, also if the client has left by then. 0: there is no cluster, or it
 * is a hop: what this node has is the answer. < 0: err is the answer. */
must_check int hops_gather(struct hops *h, struct http_req *req, peers_fn fn, void *arg,
                           struct err *err);
