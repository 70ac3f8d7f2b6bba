// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that name a sandbox by its name. A name is the project's, so its caller is known first.
 *
 *	here? --> the handler
 *	  | no
 *	node_find_name() --> nobody: the handler says so
 *	  ^ | a node
 *	  | v
 *	  hop --> that node's answer
 *	   +---- 421: it is not there any more, and nothing was done
 *
 * A node that is named again behind its 421 is about to give the name back: nobody has it.
 *
 * Whom a hop names a sandbox that this node does not have is told 421: a name is looked up once,
 * by the node that the client has asked.
 */
#include "api/account/login.h"
#include "api/frame/find.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "compat/vercel/wire.h"
#include "daemon/gateway/hop/hop_find.h"
#include "daemon/gateway/hop/hop_private.h"
#include "sandbox/model/create_rules.h"
#include "tenant/key.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE 64 /* of the longest name, and its NUL */
#define TRIES_MAX 3  /* a sandbox that is elsewhere each time */

struct name_call {
	struct hops *h;
	struct http_req *req; /* NULL: its client is gone */
	unsigned tries;
	uint32_t last; /* the node that does not have it any more */
	char name[];
};

static int look(struct name_call *c, uint64_t since_us, struct err *err);

static void on_gone(void *arg)
{
	((struct name_call *)arg)->req = NULL;
}

static void drop(void *arg)
{
	free(arg);
}

/* Frees the call. */
static void refuse(struct name_call *c, const struct err *err)
{
	struct http_req *req = c->req;

	free(c);
	if (!req)
		return;
	http_on_done(req, NULL, NULL);
	http_reply_err(req, err);
}

static bool has_name(const struct hops *h, const struct http_req *req, const char *name)
{
	const char *project_id = caller_project(req);

	return vercel_is_label(name)
	               ? vercel_sandbox_find(vercel_of(req), project_id, space_of(req),
	                                     http_param(req, "name")) != NULL
	               : sandbox_find_name(h->config.fleet, project_id, name) != NULL;
}

/* Nobody else has it. What was handed to a peer has lost marks of its own, so the handler gets it
 * back only to say that there is none. */
static void go_on(struct name_call *c)
{
	struct http_req *req = c->req;
	const bool is_here = req && has_name(c->h, req, c->name);
	struct err err;

	if (c->tries > 0 && is_here) {
		(void)node_refuse(&err, "the sandbox is on another node each time");
		refuse(c, &err);
		return;
	}
	free(c);
	if (!req)
		return;
	http_on_done(req, NULL, NULL);
	http_set_told(req, false);
	http_go_on(req);
}

static void on_misdirected(struct http_req *req, void *arg)
{
	struct name_call *c = arg;
	struct err err;
	int r;

	node_forget_name(c->h->config.node, caller_project(req), c->name);
	http_on_done(req, on_gone, c);
	r = ++c->tries < TRIES_MAX ? look(c, clock_steady_us(), &err)
	                           : node_refuse(&err, "the sandbox is on another node each time");
	if (r < 0)
		refuse(c, &err);
	else if (r == 0)
		go_on(c);
}

/* The other node must know the caller, too. */
int hop_check_caller(const struct hops *h, const struct http_req *req, uint32_t node,
                     struct err *err)
{
	const struct key *key = http_user(req);

	if (!key_person(key) && key != keyring_root(h->config.keyring) && !login_is_by_cookie(req))
		return 0;
	return hop_refuse_caller(h, node, err);
}

int hop_refuse_caller(const struct hops *h, uint32_t node, struct err *err)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	(void)err_set(
		err, ERR_UNAUTHENTICATED, 0,
		"the node '%s' has it, and knows callers by keys alone: logins and callers of "
		"the unix socket are this node's own",
		row ? row->name : "?");
	return err_hint(err, "use a key, as CLOCHE_API_KEY, or ask that node");
}

/* 1: it is passed on, and c is the hop's. */
static int pass_on(struct name_call *c, uint32_t node, struct err *err)
{
	struct hops *h = c->h;
	auto_free char *body =
		http_json(c->req) ? json_dumps(http_json(c->req), JSON_COMPACT) : NULL;
	const struct hop_named named = {on_misdirected, drop, c, /* is_placed= */ false};
	const struct route_facts facts = {.self = h->config.link->word.node,
	                                  .forward = node,
	                                  .is_alive = hop_is_alive,
	                                  .arg = h};
	struct route way = {0};
	int r = hop_check_caller(h, c->req, node, err);

	if (r < 0)
		return r;
	if (route_first(&way, &facts, &node) != ROUTE_HOP) {
		hop_refuse_unreachable(err, h, facts.forward, "the cluster does not hear of it");
		return -EHOSTUNREACH;
	}
	c->last = node;
	hop_request_start(h, c->req, &way, &facts, node, &named, body);
	return 1;
}

static bool is_other(const struct name_call *c, uint32_t node)
{
	return node != 0 && node != c->last && node != c->h->config.link->word.node;
}

static void on_found(uint32_t node, const struct err *failure, void *arg)
{
	struct name_call *c = arg;
	struct err err;

	if (failure)
		refuse(c, failure);
	else if (!c->req || !is_other(c, node))
		go_on(c);
	else if (pass_on(c, node, &err) < 0)
		refuse(c, &err);
}

/* 1: it waits, or is passed on; 0: nobody else has it. */
static int look(struct name_call *c, uint64_t since_us, struct err *err)
{
	const struct node_name wanted = {
		.project_id = caller_project(c->req), .name = c->name, .since_us = since_us};
	uint32_t node;
	int r = node_find_name(c->h->config.node, &wanted, &node, on_found, c, err);

	if (r <= 0)
		return r < 0 ? r : 1;
	return is_other(c, node) ? pass_on(c, node, err) : 0;
}

int hops_pass_by_name(struct hops *h, struct http_req *req, const char *name, struct err *err)
{
	struct name_call *c;
	int r;

	if (!node_is_in(h->config.node) || http_hop_from(req))
		return 0;
	c = xcalloc(1, sizeof(*c) + strlen(name) + 1);
	c->h = h;
	c->req = req;
	memcpy(c->name, name, strlen(name));
	http_on_done(req, on_gone, c);
	r = look(c, http_begun_us(req), err);
	if (r <= 0) {
		http_on_done(req, NULL, NULL);
		free(c);
	}
	return r;
}

int hop_misdirect(struct http_req *req)
{
	http_set_told(req, true);
	http_reply_header(req, HOP_MOVED_FIELD, "0");
	http_reply(req, 421, NULL, NULL, 0);
	return 1;
}

/* What paths call a sandbox by, as the cluster's names have it. False: by an id, or by nothing that
 * could be a name. */
static bool name_native(const struct http_req *req, const char *param, char ret[NAME_SIZE])
{
	(void)req;
	return rules_check_name(param, NULL) == 0 && snprintf(ret, NAME_SIZE, "%s", param) > 0;
}

static bool name_vercel(const struct http_req *req, const char *param, char ret[NAME_SIZE])
{
	vercel_label_make(space_of(req), param, ret);
	return true;
}

static const struct named_path {
	const char *path, *param;
	bool (*name)(const struct http_req *req, const char *param, char ret[NAME_SIZE]);
} named_paths[] = {
	{"/v1/sandboxes/{id}", "id", name_native},
	{"/vercel/api/v2/sandboxes/{name}", "name", name_vercel},
};

static bool find_name(const struct http_req *req, char ret[NAME_SIZE])
{
	for (size_t i = 0; i < ARRAY_SIZE(named_paths); i++) {
		const struct named_path *p = &named_paths[i];

		if (strncmp(http_route(req)->path, p->path, strlen(p->path)) == 0)
			return p->name(req, http_param(req, p->param), ret);
	}
	return false;
}

int hops_locate(struct hops *h, struct http_req *req, struct err *err)
{
	char name[NAME_SIZE];
	int r = hop_node_locate(h, req, err);

	if (r != 0 || !node_is_in(h->config.node) || !http_user(req))
		return r;
	if (hop_find_answer(h, req))
		return 1;
	if (!find_name(req, name))
		return hop_find_path(h, req, err);
	if (has_name(h, req, name)) {
		const struct sandbox *s =
			sandbox_find_name(h->config.fleet, caller_project(req), name);

		return s ? sandbox_check_fence(s, err) : 0;
	}
	return http_hop_from(req) ? hop_misdirect(req) : hops_pass_by_name(h, req, name, err);
}
