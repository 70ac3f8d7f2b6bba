// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_need.h"

#include "api/frame/find.h"
#include "api/handlers.h"
#include "compat/e2b/control/templates.h"
#include "compat/vercel/wire.h"
#include "daemon/gateway/hop/hop_find.h"
#include "daemon/gateway/hop/hop_private.h"
#include "daemon/gateway/hop/hop_snapshot.h"

#include <stdio.h>
#include <string.h>

/* All that one request names. */
struct needs {
	struct hops *h;
	struct http_req *req;       /* NULL: its client is gone */
	uint32_t node;              /* that has it; 0: not known of any */
	char what[96];              /* is there */
	uint32_t other;             /* another one, that has something, too; 0: none */
	char other_what[96];        /* is there */
	bool is_create, has_others; /* than snapshots on that node */
	struct hop_find unknown;    /* names that this node does not have */
	const char *made;           /* a name that no node may have, borrowed; NULL: none */
};

static const char *node_name(const struct hops *h, uint32_t node)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	return row ? row->name : "?";
}

static void is_on(struct needs *b, uint32_t node, enum hop_kind kind, const char *name)
{
	const bool is_first = b->node == 0;

	if (node != 0 && kind != HOP_SNAPSHOT)
		b->has_others = true;
	if (node == 0 || node == b->node || (!is_first && b->other))
		return;
	*(is_first ? &b->node : &b->other) = node;
	(void)snprintf(is_first ? b->what : b->other_what, sizeof(b->what), "%s '%.64s'",
	               hop_kind_name(kind), name);
}

static void add(struct needs *b, enum hop_kind kind, const char *name)
{
	static const char *const kinds[] = {"sn", "vo", "gr", "sb"};
	const struct cluster_link *l = b->h->config.link;
	char id[ID_SIZE];

	if (!name || !name[0])
		return;
	vercel_snapshot_id_in(name, id);
	if (!id[0])
		(void)snprintf(id, sizeof(id), "%s", name);
	if (hop_has(b->h, b->req, kind, id)) {
		is_on(b, l->word.node, kind, name);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (id_is_valid(id, kinds[i])) {
			is_on(b, tag_map_find(&l->tags, (uint32_t)tag_of(id)), kind, name);
			return;
		}
	hop_find_add(&b->unknown, kind, name);
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* E2B's clients start from a snapshot as from a template: "sn_…:default", or by its name. */
static void add_template_id(struct needs *b, const char *id)
{
	char name[HOP_FIND_NAME];
	size_t len = id ? strcspn(id, ":") : 0;
	struct template_choice choice;
	struct err err;

	if (len == 0 || len >= sizeof(name))
		return;
	(void)snprintf(name, sizeof(name), "%.*s", (int)len, id);
	if (id_is_valid(name, "sn") || template_choose(b->req, id, &choice, &err) < 0 ||
	    choice.snapshot)
		add(b, HOP_SNAPSHOT, name);
}

/* Of a create on any wire: what it is made from, and what it is to have. */
static void read_create(struct needs *b, const json_t *body)
{
	const json_t *all, *one;
	const char *path, *template = text_of(body, "template");
	size_t i;

	add(b, HOP_SNAPSHOT, text_of(body, "snapshot"));
	add(b, HOP_SNAPSHOT, text_of(json_object_get(body, "source"), "snapshotId"));
	add(b, HOP_GROUP, text_of(body, "group"));
	if (template && id_is_valid(template, "sn"))
		add(b, HOP_SNAPSHOT, template);
	add_template_id(b, text_of(body, "templateID"));
	all = json_object_get(body, "volumes");
	json_array_foreach(all, i, one)
	{
		add(b, HOP_VOLUME, text_of(one, "volume"));
	}
	all = json_object_get(body, "volumeMounts");
	json_array_foreach(all, i, one)
	{
		add(b, HOP_VOLUME, text_of(one, "name"));
	}
	json_object_foreach ((json_t *)unconst(json_object_get(body, "mounts")), path, one) {
		add(b, HOP_VOLUME, text_of(one, "drive"));
	}
}

/* Of Vercel's settings. */
static void read_update(struct needs *b, const json_t *body)
{
	add(b, HOP_SNAPSHOT, text_of(body, "currentSnapshotId"));
	read_create(b, body);
}

static void read_rollback(struct needs *b, const json_t *body)
{
	add(b, HOP_SNAPSHOT, text_of(body, "snapshot"));
}

static void read_apply(struct needs *b, const json_t *body)
{
	add(b, HOP_SOURCE, text_of(body, "from"));
	add(b, HOP_SOURCE, text_of(body, "base"));
}

static void read_diff(struct needs *b, const json_t *body)
{
	(void)body;
	add(b, HOP_SOURCE, http_query(b->req, "from"));
	add(b, HOP_SOURCE, http_query(b->req, "to"));
}

static void read_tree(struct needs *b, const json_t *body)
{
	(void)body;
	add(b, HOP_SNAPSHOT, http_query(b->req, "snapshotId"));
}

/* A volume is made where its source is, and nowhere if another node has the name. */
static void read_volume(struct needs *b, const json_t *body)
{
	const char *name = text_of(body, "name");

	add(b, HOP_VOLUME, text_of(body, "source"));
	if (name && !hop_has(b->h, b->req, HOP_VOLUME, name)) {
		hop_find_add(&b->unknown, HOP_VOLUME, name);
		b->made = name;
	}
}

/* Routes whose body is no create. of_sandbox: the path names a sandbox or drive, and it is here. */
static const struct need_route {
	const char *path;
	void (*read)(struct needs *b, const json_t *body);
	bool of_sandbox;
} need_routes[] = {
	{"/v1/sandboxes/{id}/rollback", read_rollback, true},
	{"/v1/sandboxes/{id}/apply", read_apply, true},
	{"/v1/sandboxes/{id}/fork", read_create, true},
	{"/vercel/api/v2/sandboxes/{name}/fork", read_create, true},
	{"/vercel/api/v2/sandboxes/{name}", read_update, true},
	{"/vercel/api/v2/sandboxes/snapshots/tree", read_tree, false},
	{"/vercel/api/v2/sandboxes/drives/{drive}/fork", read_volume, true},
	{"/v1/diff", read_diff, false},
	{"/v1/volumes", read_volume, false},
	{"/volumes", read_volume, false},
};

static struct need_route route_of(const struct http_req *req)
{
	for (size_t i = 0; i < ARRAY_SIZE(need_routes); i++)
		if (strcmp(http_route(req)->path, need_routes[i].path) == 0)
			return need_routes[i];
	return (struct need_route){.read = read_create};
}

static int refuse_two(const struct needs *b, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, 0, "%s is on the node '%s', %s on '%s'", b->what,
	              node_name(b->h, b->node), b->other_what, node_name(b->h, b->other));
	return err_hint(err,
	                "what a request names has to be on one node: nothing moves between nodes");
}

static int refuse_made(const struct needs *b, uint32_t node, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, 0, "name: the node '%s' has a volume '%.64s'",
	              node_name(b->h, node), b->made);
	(void)snprintf(err->field, sizeof(err->field), "name");
	return err_hint(err, "choose another name, or use that volume: every node finds it");
}

/* 1: another node answers; 0: it is this node's. */
static int decide(struct needs *b, struct err *err)
{
	const uint32_t self = b->h->config.link->word.node;

	for (size_t i = 0; i < b->unknown.n; i++) {
		const uint32_t node = b->unknown.at[i].node;

		if (b->made && strcmp(b->unknown.at[i].name, b->made) == 0 && node != 0)
			return refuse_made(b, node, err);
		is_on(b, node, b->unknown.at[i].kind, b->unknown.at[i].name);
	}
	if (b->other)
		return refuse_two(b, err);
	if (b->node == 0 || b->node == self)
		return 0;
	if (b->is_create && !b->has_others && hop_snapshot_is_named(b->req))
		return hop_snapshot_lead(b->h, b->req, b->node, err);
	return hop_pass_to(b->h, b->req, b->node, err);
}

static void on_gone(void *arg)
{
	((struct needs *)arg)->req = NULL;
}

static void on_found(const struct hop_find *f, const struct err *failure, void *arg)
{
	struct needs *b = arg;
	struct http_req *req = b->req;
	struct hops *h = b->h;
	struct err err;
	int r = failure ? -EHOSTUNREACH : 0;

	b->unknown = *f;
	if (failure)
		err = *failure;
	if (req)
		http_on_done(req, NULL, NULL);
	if (req && r == 0)
		r = decide(b, &err);
	free(b);
	if (req && r < 0)
		http_reply_err(req, &err);
	if (!req || r != 0)
		return;
	h->looked = req; /* the handler runs before http_go_on() returns */
	http_go_on(req);
	h->looked = NULL;
}

int hop_need_lead(struct hops *h, struct http_req *req, struct err *err)
{
	const struct need_route route = route_of(req);
	struct needs *b;
	int r;

	if (h->looked == req || h->making == req || (http_hop_from(req) && !route.of_sandbox))
		return 0;
	b = xnew0(struct needs);
	b->h = h;
	b->req = req;
	b->is_create = route.read == read_create && !route.of_sandbox;
	if (route.of_sandbox) {
		b->node = h->config.link->word.node;
		(void)snprintf(b->what, sizeof(b->what), "the sandbox");
	}
	route.read(b, http_json(req));
	http_on_done(req, on_gone, b);
	r = hop_find_begin(h, req, &b->unknown, on_found, b, err);
	if (r > 0)
		return r;
	http_on_done(req, NULL, NULL);
	if (r == 0)
		r = decide(b, err);
	free(b);
	return r;
}
