// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_find.h"

#include "api/frame/find.h"
#include "base/id.h"
#include "daemon/gateway/hop/hop_gather.h"
#include "daemon/gateway/hop/hop_private.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/volume.h"

#include <stdio.h>
#include <string.h>

static bool has_snapshot(struct fleet *fleet, const char *project_id, const char *name)
{
	return snapshot_find(fleet, project_id, name) != NULL;
}

static bool has_volume(struct fleet *fleet, const char *project_id, const char *name)
{
	return volume_find(fleet, project_id, name) != NULL;
}

static void count_one(struct sandbox *s, void *arg)
{
	(void)s;
	++*(size_t *)arg;
}

static bool has_group(struct fleet *fleet, const char *project_id, const char *name)
{
	const struct sandbox_filter filter = {.project_id = project_id, .group = name, .limit = 1};
	bool has_more;
	size_t n = 0;

	(void)fleet_list(fleet, &filter, count_one, &n, &has_more);
	return n > 0;
}

static bool has_source(struct fleet *fleet, const char *project_id, const char *name)
{
	return sandbox_find(fleet, project_id, name) || has_snapshot(fleet, project_id, name);
}

static bool has_secret_user(struct fleet *fleet, const char *project_id, const char *name)
{
	return network_count_users(fleet, project_id, name) > 0;
}

static const struct find_kind {
	const char *name;
	bool (*is_here)(struct fleet *fleet, const char *project_id, const char *name);
} find_kinds[HOP_KIND_COUNT] = {
	[HOP_SNAPSHOT] = {"snapshot", has_snapshot},
	[HOP_VOLUME] = {"volume", has_volume},
	[HOP_GROUP] = {"group", has_group},
	[HOP_SOURCE] = {"source", has_source},
	[HOP_SECRET_USER] = {"secret-user", has_secret_user},
};

const char *hop_kind_name(enum hop_kind kind)
{
	return find_kinds[kind].name;
}

bool hop_has(const struct hops *h, const struct http_req *req, enum hop_kind kind, const char *name)
{
	return find_kinds[kind].is_here(h->config.fleet, caller_project(req), name);
}

void hop_find_add(struct hop_find *f, enum hop_kind kind, const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const size_t len = strlen(name);

	if (f->n == HOP_FIND_MAX || len == 0 || len >= HOP_FIND_NAME ||
	    strspn(name, letters) != len)
		return;
	f->at[f->n].kind = kind;
	(void)snprintf(f->at[f->n++].name, HOP_FIND_NAME, "%s", name);
}

struct find_call {
	struct hops *h;
	struct hop_find find;
	hop_found_fn fn;
	void *arg;
};

static const char *node_name(const struct hops *h, uint32_t node)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	return row ? row->name : "?";
}

static int refuse_two(const struct find_call *c, size_t i, uint32_t other, struct err *err)
{
	const char *what = hop_kind_name(c->find.at[i].kind), *name = c->find.at[i].name;

	(void)err_set(err, ERR_CONFLICT, 0, "two nodes have a %s '%s': '%s' and '%s'", what, name,
	              node_name(c->h, c->find.at[i].node), node_name(c->h, other));
	return err_hint(err, "use its id instead of its name: the list of %ss shows both", what);
}

static int refuse_silent(const struct find_call *c, size_t i, const struct peer_answer *silent,
                         struct err *err)
{
	(void)err_set(err, ERR_NODE_UNREACHABLE, 0,
	              "no node that answers has a %s '%s', and '%s' does not answer: %s",
	              hop_kind_name(c->find.at[i].kind), c->find.at[i].name, silent->name,
	              silent->why);
	return err_hint(err,
	                "try again, name it by its id, or ask that node: `cloche node ls` tells "
	                "which nodes are up");
}

static int read_answers(struct find_call *c, const struct peer_answers *answers, struct err *err)
{
	const struct peer_answer *silent = NULL;

	if (answers->n == 0 && answers->unsure[0])
		return node_refuse(err, answers->unsure);
	for (size_t k = 0; k < answers->n; k++) {
		const struct peer_answer *a = &answers->at[k];
		const json_t *has = json_object_get(a->body, "has");

		if (!a->body || json_array_size(has) != c->find.n) {
			silent = a;
			continue;
		}
		for (size_t i = 0; i < c->find.n; i++) {
			if (!json_is_true(json_array_get(has, i)))
				continue;
			if (c->find.at[i].node != 0)
				return refuse_two(c, i, a->node, err);
			c->find.at[i].node = a->node;
		}
	}
	for (size_t i = 0; silent && i < c->find.n; i++)
		if (c->find.at[i].node == 0)
			return refuse_silent(c, i, silent, err);
	return 0;
}

static void on_answers(const struct peer_answers *answers, void *arg)
{
	struct find_call *c = arg;
	struct err err;
	int r = read_answers(c, answers, &err);

	c->fn(&c->find, r < 0 ? &err : NULL, c->arg);
	free(c);
}

int hop_find_begin(struct hops *h, struct http_req *req, const struct hop_find *f, hop_found_fn fn,
                   void *arg, struct err *err)
{
	auto_call(buf_done) struct buf words = BUF_INIT((size_t)HOP_FIND_MAX * 2 * HOP_FIND_NAME);
	struct find_call *c;
	int r;

	if (f->n == 0)
		return 0;
	for (size_t i = 0; i < f->n; i++)
		if (buf_printf(&words, "%s%s/%s", i ? " " : "", hop_kind_name(f->at[i].kind),
		               f->at[i].name) < 0)
			return err_set(err, ERR_INTERNAL, 0, "too many names");
	c = xnew0(struct find_call);
	*c = (struct find_call){.h = h, .find = *f, .fn = fn, .arg = arg};
	r = hop_gather_find(h, req, buf_str(&words), on_answers, c, err);
	if (r <= 0)
		free(c);
	return r;
}

static bool has_word(const struct hops *h, const struct http_req *req, const char *word)
{
	const char *slash = strchr(word, '/');

	for (unsigned i = 0; slash && i < HOP_KIND_COUNT; i++)
		if (strncmp(word, find_kinds[i].name, (size_t)(slash - word)) == 0 &&
		    strlen(find_kinds[i].name) == (size_t)(slash - word))
			return hop_has(h, req, (enum hop_kind)i, slash + 1);
	return false;
}

bool hop_find_answer(struct hops *h, struct http_req *req)
{
	const char *words = http_hop_from(req) ? http_header(req, HOP_FIND_FIELD) : NULL;
	auto_call(buf_done) struct buf body = BUF_INIT(4096);
	auto_free char *copy = NULL;
	struct json_writer w;
	char *rest;

	if (!words)
		return false;
	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	json_open_array(&w, "has");
	rest = copy = xstrdup(words);
	for (const char *word; (word = strsep(&rest, " "));)
		json_put_bool(&w, NULL, has_word(h, req, word));
	json_close_array(&w);
	json_close_object(&w);
	(void)!json_writer_end(&w);
	http_set_told(req, true); /* nothing was read or changed */
	http_reply_json(req, 200, &body);
	return true;
}

/* Paths. */

static const struct kind_path {
	const char *path, *param;
	enum hop_kind kind;
} kind_paths[] = {
	{"/v1/snapshots/{snapshot}", "snapshot", HOP_SNAPSHOT},
	{"/v1/volumes/{volume}", "volume", HOP_VOLUME},
	{"/vercel/api/v2/sandboxes/drives/{drive}", "drive", HOP_VOLUME},
};

struct path_call {
	struct hops *h;
	struct http_req *req; /* NULL: its client is gone */
};

static void on_gone(void *arg)
{
	((struct path_call *)arg)->req = NULL;
}

static void go_on(struct http_req *req)
{
	http_on_done(req, NULL, NULL);
	http_set_told(req, false);
	http_go_on(req);
}

/* It was removed between the question and the request. */
static void on_misdirected(struct http_req *req, void *arg)
{
	free(arg);
	go_on(req);
}

static void on_found(const struct hop_find *f, const struct err *failure, void *arg)
{
	static const struct hop_named by_name = {.misdirected = on_misdirected, .over = free};
	struct path_call *c = arg;
	struct hop_named named = by_name;
	struct route_facts facts = {.self = c->h->config.link->word.node,
	                            .forward = f->at[0].node,
	                            .is_alive = hop_is_alive,
	                            .arg = c->h};
	struct route way = {0};
	uint32_t node;

	if (!c->req || failure || f->at[0].node == 0) {
		struct http_req *req = c->req;

		free(c);
		if (!req)
			return;
		if (!failure) {
			go_on(req);
			return;
		}
		http_on_done(req, NULL, NULL);
		http_reply_err(req, failure);
		return;
	}
	named.arg = c;
	if (route_first(&way, &facts, &node) != ROUTE_HOP) {
		struct err err;

		hop_refuse_unreachable(&err, c->h, facts.forward,
		                       "the cluster does not hear of it");
		http_on_done(c->req, NULL, NULL);
		http_reply_err(c->req, &err);
		free(c);
		return;
	}
	hop_request_start(c->h, c->req, &way, &facts, node, &named, NULL);
}

static const struct kind_path *find_row(const struct http_req *req)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_paths); i++)
		if (strncmp(http_route(req)->path, kind_paths[i].path,
		            strlen(kind_paths[i].path)) == 0)
			return &kind_paths[i];
	return NULL;
}

/* Other nodes do not know the caller, and cannot be asked. What would be made is made here. */
static int refuse_local(const struct hops *h, const struct http_req *req, enum hop_kind kind,
                        const char *name, struct err *err)
{
	const enum http_method method = http_req_method(req);

	if (h->config.link->n_nodes < 2 || method == HTTP_PUT || method == HTTP_POST)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0,
	              "this node has no %s '%.64s', and other nodes can be asked with a key only",
	              hop_kind_name(kind), name);
	(void)err_hint(err, "set CLOCHE_API_KEY to a key: then all nodes are asked");
	return -ENOENT;
}

int hop_find_path(struct hops *h, struct http_req *req, struct err *err)
{
	const struct kind_path *p = find_row(req);
	const char *name = p ? http_param(req, p->param) : NULL;
	struct hop_find find = {0};
	struct path_call *c;
	int r;

	if (!name || id_is_valid(name, "sn") || id_is_valid(name, "vo") ||
	    hop_has(h, req, p->kind, name))
		return 0;
	if (http_hop_from(req))
		return hop_misdirect(req);
	if (!hop_is_known_elsewhere(h, req))
		return refuse_local(h, req, p->kind, name, err);
	hop_find_add(&find, p->kind, name);
	c = xnew0(struct path_call);
	*c = (struct path_call){h, req};
	http_on_done(req, on_gone, c);
	r = hop_find_begin(h, req, &find, on_found, c, err);
	if (r <= 0) {
		http_on_done(req, NULL, NULL);
		free(c);
	}
	return r;
}
