// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to this folder. */
#include "cluster/placement.h"
#include "cluster/route.h"
#include "daemon/gateway/hop/hop.h"
#include "daemon/gateway/hop/hop_streams.h"

#define HOP_PLACED_FIELD "Cloche-Placed" /* of a create that a peer has chosen this node for */
#define HOP_FIND_FIELD   "Cloche-Find"   /* of a question whether it has something (hop_find.h) */
#define HOP_MOVED_FIELD  "Cloche-Moved"  /* of a peer's 421: the number of the node that has it */

#define HOP_SPENT_MAX 64
#define HOP_MOVED_MAX 256 /* sandboxes of other nodes' tags that are remembered */

struct hops {
	struct hops_config config;
	struct hop_streams streams;
	struct list *requests;            /* of struct hop_request */
	struct placement_view view;       /* some other nodes, and how full they are (hop_load.c) */
	struct placement_figures figures; /* of this one */
	struct {                          /* its CPUs, for people */
		uint64_t busy_us, at_us;  /* as of the last look; 0: there was none */
		uint64_t milli;           /* in use, in thousandths of one; of the last seconds */
	} cpu;
	bool is_load_asked;
	struct loop_timer *load_timer;
	const struct http_req *making; /* that is made here, after others were tried */
	const struct http_req *looked; /* of which this node has what it names (hop_need.c) */
	struct list *gathers;          /* of struct gather */
	struct { /* projects of which no node had any quota left (hop_place.c) */
		char project_id[ID_SIZE];
		uint64_t until_us;
	} spent[HOP_SPENT_MAX];
	struct {
		char id[ID_SIZE];
		uint32_t node;
	} moved[HOP_MOVED_MAX]; /* hop_moved.c */
	size_t n_moved;
	unsigned n_wheres; /* questions to the directory under way (hop_directory.c) */
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
	bool is_placed; /* a create, that any node may make */
};

/* hop_request.c: takes the request over and passes it on. What the peers say goes to route. named
 * may be NULL; body is borrowed until it returns, and NULL where it has not been read. */
void hop_request_start(struct hops *h, struct http_req *req, const struct route *route,
                       const struct route_facts *facts, uint32_t node,
                       const struct hop_named *named, const char *body);
void hop_request_look(struct hops *h); /* ends those that do not move */
void hop_gathers_drop(struct hops *h); /* their callers are gone */
/* hop_moved.c. 0: it is not known to have moved. */
uint32_t hop_moved_find(const struct hops *h, const char *id);
void hop_moved_note(struct hops *h, const char *id, uint32_t node);
uint32_t hop_moved_read(const struct http_head *head); /* of a peer's answer; 0: it says no node */
int hop_moved_tell(struct http_req *req, uint32_t node);
/* hops.c: what the request names by an id. */
struct hop_id;
bool hop_find_id(const struct hops *h, const struct http_req *req, struct hop_id *ret);
/* hop_place.c: of a request whose body has been read. named as above. */
void hop_pass(struct hops *h, struct http_req *req, uint32_t node, const struct hop_named *named);
/* The same to the node that has what it needs, and to no other. 1; or err says why not. */
must_check int hop_pass_to(struct hops *h, struct http_req *req, uint32_t node, struct err *err);
/* hop_directory.c: asks the directory. 1: it answers the request, later; 0: it cannot be asked. */
int hop_directory_ask(struct hops *h, struct http_req *req, const char *id,
                      const struct route *route, const struct route_facts *facts);
/* Whether other nodes know the caller. */
bool hop_is_known_elsewhere(const struct hops *h, const struct http_req *req);
bool hop_is_alive(uint32_t node, void *arg); /* arg: the hops */
void hop_refuse_unreachable(struct err *err, const struct hops *h, uint32_t node, const char *why);
/* Whether that node knows the caller, too; else err says so. */
must_check int hop_check_caller(const struct hops *h, const struct http_req *req, uint32_t node,
                                struct err *err);
int hop_refuse_caller(const struct hops *h, uint32_t node, struct err *err); /* it does not */
/* hop_node.c: part of locate: of requests that say which node's they want. */
must_check int hop_node_locate(struct hops *h, struct http_req *req, struct err *err);
int hop_misdirect(struct http_req *req); /* a peer is told that it is not for this node */

/* hop_load.c: how full this node and some others are. */
void hop_load_open(struct hops *h);
void hop_load_close(struct hops *h);
void hop_load_begin(struct hops *h); /* it is in a cluster */
void hop_load_look(struct hops *h);  /* this node's figures, as of now */
/* A node has refused a create: it is passed over until its next figures. */
void hop_load_refused(struct hops *h, uint32_t node);
