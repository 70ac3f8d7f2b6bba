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
	struct list *requests; /* of struct hop_request */
	struct list *gathers;  /* of struct gather */
	unsigned n_wheres;     /* questions to the directory under way (hop_directory.c) */
	uint64_t wheres_owed_us;
	struct loop_timer *timer; /* looks for those that do not move */
};

/*
 * Of a request that names a sandbox by its name: the peer may not have it any more, and says so
 * (421) before it takes a byte of the body. Then the request is its caller's again. Exactly one of
 * the two is called, once.
 */
struct hop_named {
	void (*misdirected)(struct http_req *req, void *arg);
	void (*over)(void *arg);
	void *arg;
};

/* hop_request.c: takes the request over and passes it on. What the peers say goes to route. named
 * may be NULL; body is borrowed until it returns, and NULL where it has not been read. */
void hop_request_start(struct hops *h, struct http_req *req, const struct route *route,
                       const struct route_facts *facts, uint32_t node,
                       const struct hop_named *named, const char *body);
void hop_request_look(struct hops *h); /* ends those that do not move */
void hop_gathers_drop(struct hops *h); /* their callers are gone */
/* hop_directory.c: asks the directory. 1: it answers the request, later; 0: it cannot be asked. */
int hop_directory_ask(struct hops *h, struct http_req *req, const char *id, const struct route *route,
                  const struct route_facts *facts);
bool hop_is_alive(uint32_t node, void *arg); /* arg: the hops */
void hop_refuse_unreachable(struct err *err, const struct hops *h, uint32_t node, const char *why);
