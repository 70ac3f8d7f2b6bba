// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to this folder. */
#include "cluster/route.h"
#include "daemon/gateway/hop/hop.h"
#include "daemon/gateway/hop/hop_streams.h"

#define HOP_MOVED_FIELD "Cloche-Moved" /* of a peer's 421: the number of the node that has it */

struct hops {
	struct hops_config config;
	struct hop_streams streams;
	struct list *requests;    /* of struct hop_request */
	struct loop_timer *timer; /* looks for those that do not move */
};

/* hop_request.c: takes the request over and passes it on. What the peers say goes to route. */
void hop_request_start(struct hops *h, struct http_req *req, const struct route *route,
                       const struct route_facts *facts, uint32_t node);
void hop_request_look(struct hops *h); /* ends those that do not move */
void hop_refuse_unreachable(struct err *err, const struct hops *h, uint32_t node, const char *why);
