// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Requests for what another node has: passed on to it as a hop, and its answer back.
 *
 *	client ─► hops_divert() ─stream─► member ═TLS═► member ─stream─► http_server_take()
 *
 * A hop is HTTP/1.1 over a kept stream (hop_streams.h). Heads are read strictly and written anew
 * (hop_heads.c), bodies pass with back-pressure both ways, and after 101 bytes go as they are.
 * The client's own credential goes along, and the owner checks it: a peer is trusted to name the
 * client's address and the request's id, and nothing else. A request that came as a hop is never
 * passed on.
 *
 * A request that the peer may have seen is not sent again, unless repeating it changes nothing.
 */
#include "api/operate/host_reading.h"
#include "daemon/gateway/cluster_link.h"
#include "http/server.h"
#include "node/node.h"
#include "sandbox/model/find.h"

struct hops;

struct hops_config {
	struct loop *loop;
	struct cluster_link *link; /* its ops are set */
	struct fleet *fleet;
	struct node *node; /* NULL: this node is alone */
	struct keyring *keyring;
	const char *preview_domain; /* NULL: none */
	const struct host_reading *host;
	/* A peer's stream, to be served; fd is the callee's. */
	void (*serve)(uint32_t from, int fd, void *arg);
	void *arg;
};

struct hops *hops_new(const struct hops_config *config);
void hops_free(struct hops *h); /* NULL is fine; no request may be under way */
/* An http_app's divert: 1: another node has it; 0: it is for this one. */
int hops_divert(struct hops *h, struct http_req *req, struct err *err);
/* An http_app's locate: of paths that name a sandbox by its name. */
int hops_locate(struct hops *h, struct http_req *req, struct err *err);
/* Of struct api: of a create that takes what is there. */
int hops_pass_by_name(struct hops *h, struct http_req *req, const char *name, struct err *err);
/* Of struct api: of a request that names what may be on another node. */
int hops_lead(struct hops *h, struct http_req *req, struct err *err);
/* Of struct api: of a secret that is to be removed (hop_secret.c). */
int hops_ask_secret_users(struct hops *h, struct http_req *req, const char *name,
                          void (*fn)(const struct err *err, void *arg), void *arg, struct err *err);
/* Of struct api: of a create, whose body has been read. */
int hops_place(struct hops *h, struct http_req *req, const struct err *refused, struct err *err);
