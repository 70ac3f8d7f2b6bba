// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The native HTTP API, /v1, as described in api/openapi.yaml: a table of routes, the check of who
 * is calling, and a file per resource. A handler parses, finds, acts, replies; what it finds always
 * belongs to the caller's project. Nothing here keeps state of its own but counts: all else lives
 * in the fleet and the keyring, or in the request that is being answered.
 *
 *	frame/			what handlers share: bodies, replies, who may see what, waiting
 *	operate/ account/	of the daemon and of a project: health, metrics; keys, usage, events
 *	sandboxes/ execs/ code/ files/ network/ templates/ storage/	a folder for each subject
 *
 * routes.c here puts their handlers in one table, authorize.c and hold.c apply to all of them.
 */
#include "audit/sinks.h"
#include "base/fair_room.h"
#include "base/list.h"
#include "build/build.h"
#include "history/history.h"
#include "hook/hook.h"
#include "http/server.h"
#include "node/node.h"
#include "node/peers.h"
#include "person/login_flow.h"
#include "preview/authority.h"
#include "preview/preview.h"
#include "sandbox/fleet/fleet.h"
#include "telemetry/telemetry.h"
#include "tenant/key.h"
#include "tenant/login.h"
#include "tenant/meter.h"
#include "tenant/price.h"

/* How often a caller without a good key was turned away lately. Zeroed memory is a fresh one. */
#define LOGIN_PEERS_MAX 64
struct login_peer {
	uint64_t peer;     /* hash of where it calls from, 0 = free row */
	uint64_t since_us; /* when its count began */
	unsigned failures;
};

/* Requests by route (the last row: none of ours) and class of status. */
#define API_ROUTES_MAX 320
struct http_counts {
	uint64_t requests[API_ROUTES_MAX + 1][6];
	uint64_t bytes_out;
	uint64_t refused; /* for want of room: 429 and 503 */
};

/* A part of the daemon, and when its successor was last started because it died or hung. */
#define API_PARTS 4
struct api_part {
	const char *name;
	uint64_t replaced_us; /* wall clock; 0: never, as far as this gateway knows */
};

struct api { /* the http_app's arg; the daemon owns it */
	struct loop *loop;
	struct fleet *fleet;
	struct keyring *keyring;
	struct node *node; /* of a cluster; NULL: there is none (node_is_in()) */
	/* Passes a request whose body has been read on to the node that has the sandbox of that
	 * name. 1: it does, or http_go_on() follows. 0: no other node has one. NULL: no cluster. */
	int (*pass_by_name)(struct http_req *req, const char *name, struct err *err);
	/* A request whose body or query names what may be on another node. 1: that node answers,
	 * or http_go_on() follows; 0: it is this node's. NULL: no cluster. lead_elsewhere() calls
	 * it. */
	int (*lead)(struct http_req *req, struct err *err);
	/* A create, before it is tried here, and again when it was refused here. 1: another node
	 * makes it, or http_go_on() follows; 0: this one does, or it is refused. NULL: no
	 * cluster. */
	int (*place)(struct http_req *req, const struct err *refused, struct err *err);
	/* Asks all other nodes the same. 1: fn is called later; 0: there are none to ask. NULL: no
	 * cluster. */
	int (*ask_peers)(struct http_req *req, peers_fn fn, void *arg, struct err *err);
	/* Whether the policy of a sandbox on another node refers to the secret. 1: fn is called
	 * later; err: one does, or a node does not answer. 0: there are none to ask. NULL: no
	 * cluster. */
	int (*ask_secret_users)(struct http_req *req, const char *name,
	                        void (*fn)(const struct err *err, void *arg), void *arg,
	                        struct err *err);
	struct logins *logins;
	struct login_flow *people; /* NULL: there is no login provider */
	struct meters *meters;
	struct history *history;
	struct quota *quota;
	struct shares *shares; /* NULL: all is served as it comes */
	struct prices prices;
	const char *currency;
	struct preview preview;
	const char *preview_url;    /* where /p/ is found: "http://127.0.0.1:7070"; "" = nowhere */
	const char *preview_scheme; /* of names below the domain */
	const char *preview_port;   /* ":7070", or "" for the scheme's own */
	const char *preview_tls_port; /* the same for https */
	const struct authority
		*authority; /* that certifies names of previews; NULL: none of our own */
	struct event_log *events;
	const struct seal_key *seal_key;
	struct hooks *hooks;
	const struct audit_sinks *audit; /* NULL: none are open yet */
	struct secrets *secrets;
	struct builds *builds;
	struct problems *problems;
	struct telemetry *telemetry; /* NULL: none */
	struct store *store;         /* for its size */
	uint64_t compat_wait_ms;     /* creates of other wires wait so long for room */
	bool is_metrics_open;        /* to who has no key */
	const char *data_dir;        /* as root finds it; this process cannot */
	const char *doctor; /* what the host can do, as JSON, found at the start; NULL: not known */
	json_t *settings;   /* as they are told; made at the start */
	struct {
		int statm, fd_dir; /* of this process, opened while /proc was in reach; -1 = not */
	} proc;
	uint64_t started_us; /* wall clock */
	struct api_part parts[API_PARTS];
	struct login_peer login_peers[LOGIN_PEERS_MAX];
	const struct http_route *routes; /* all that are served, n_routes of them */
	size_t n_routes;
	struct http_counts http;
	struct mcp *mcp;       /* src/mcp, which stands on this */
	struct vercel *vercel; /* what that face keeps (compat/vercel/vercel_sandbox.h) */
	struct list batches;   /* that are being created (sandboxes/batch.c) */
	struct list watchers;  /* of another wire's clients (src/compat) */
	struct fair_room held; /* by results of code calls, in bytes, until they are sent */
};

/* Which of the projects that a person has a role in is meant; of a key it must be its own. */
#define PROJECT_HEADER "X-Cloche-Project"

const struct http_route *api_routes(size_t *ret_n);
/* Finds the caller's key, which becomes http_user(), and holds its scope against the route's
 * access. */
int api_authorize(struct http_req *req, struct err *err);
int api_recheck(struct http_req *req, struct err *err); /* http_app's */
/* A token that was shown stands for that key (tenant/key_token.h): the request is the key's, and
 * ends with it. */
void api_let_in(struct http_req *req, const struct key *key);
int api_divert(struct http_req *req, struct err *err); /* to what sandboxes serve */
