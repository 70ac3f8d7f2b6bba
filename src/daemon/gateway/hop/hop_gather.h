// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sends a client's GET of a list to all other nodes at the same time, so that the answer has what
 * was made on one of them a moment ago. If there are more than GATHER_MAX others, none is asked:
 * each is reported as not asked, and the caller uses the directory.
 */
#include "daemon/gateway/hop/hop.h"
#include "node/peers.h"

#define GATHER_MAX 32

/* 1: fn is called once, later, also if the client has left by then. 0: there is no cluster, or it
 * is a hop: what this node has is the answer. < 0: err is the answer. */
must_check int hops_gather(struct hops *h, struct http_req *req, peers_fn fn, void *arg,
                           struct err *err);
/* Likewise a question whether they have something (hop_find.h), also of a hop: who is asked asks
 * nobody. 0 also where other nodes do not know the caller. */
must_check int hop_gather_find(struct hops *h, struct http_req *req, const char *words, peers_fn fn,
                               void *arg, struct err *err);
