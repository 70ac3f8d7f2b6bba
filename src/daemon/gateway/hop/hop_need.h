// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A body or query may name things that are on one node only: a snapshot, a volume, a group. Such a
 * request goes to the node that has them all, or is refused with an error that names the nodes.
 *
 *	ids --> their tags     |
 *	names --> here?        +--> all on one node --> there, or here
 *	      --> hop_find.h   |    on two --> refused
 *
 * A request that came as a hop stays here: the node that sent it has looked already.
 */
#include "daemon/gateway/hop/hop.h"

/* 1: another node answers, or http_go_on() follows; 0: it is for this node, as far as is known. */
must_check int hop_need_lead(struct hops *h, struct http_req *req, struct err *err);
