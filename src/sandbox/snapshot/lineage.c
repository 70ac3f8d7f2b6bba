// SPDX-License-Identifier: Apache-2.0
/*
 * The tree of sandboxes and snapshots. Two kinds of nodes alternate: a snapshot's parent is the
 * sandbox that it was taken of, and a sandbox's parent is the snapshot that it was started from. A
 * forgotten sandbox is still a node as long as a snapshot of it exists; the snapshot remembers the
 * sandbox's parent (origin_id).
 *
 * The nodes are collected by going up to the root and then down, one generation per round.
 */
#include "sandbox/model/find.h"
#include "sandbox/snapshot/snapshot_private.h"

#define NODES_MAX 2000

struct node {
	char id[ID_SIZE], parent_id[ID_SIZE];
	const struct sandbox *sandbox;   /* NULL: it is a snapshot, or forgotten */
	const struct snapshot *snapshot; /* NULL: it is a sandbox */
	UT_hash_handle hh;
};

struct lineage {
	const struct fleet *fleet;
	const char *project_id;
	struct node *by_id; /* in the order in which they were found */
};

static const struct sandbox *find_sandbox(const struct lineage *l, const char *id)
{
	struct sandbox *s = NULL;

	HASH_FIND(by_id, l->fleet->by_id, id, strlen(id), s);
	return s && strcmp(s->project_id, l->project_id) == 0 ? s : NULL;
}

static const struct snapshot *find_of(const struct lineage *l, const char *source_id)
{
	list_for_each (&l->fleet->snapshots, const struct snapshot, sn, link)
		if (strcmp(sn->source_id, source_id) == 0 &&
		    strcmp(sn->project_id, l->project_id) == 0)
			return sn;
	return NULL;
}

/* "" at the root: there is no node for it, or its parent is gone. */
static const char *find_parent(const struct lineage *l, const char *id)
{
	const struct snapshot *sn = snapshot_find(l->fleet, l->project_id, id), *of;
	const struct sandbox *s;
	const char *from;

	if (sn)
		return sn->source_id;
	s = find_sandbox(l, id);
	of = s ? NULL : find_of(l, id);
	from = s ? s->snapshot_id : of ? of->origin_id : "";
	return snapshot_find(l->fleet, l->project_id, from) ? from : "";
}

static void add(struct lineage *l, const char *id, const char *parent_id)
{
	struct node *n = NULL;

	HASH_FIND_STR(l->by_id, id, n);
	if (n || HASH_COUNT(l->by_id) >= NODES_MAX)
		return;
	n = xnew0(struct node);
	(void)snprintf(n->id, sizeof(n->id), "%s", id);
	(void)snprintf(n->parent_id, sizeof(n->parent_id), "%s", parent_id);
	n->snapshot = snapshot_find(l->fleet, l->project_id, id);
	n->sandbox = n->snapshot ? NULL : find_sandbox(l, id);
	HASH_ADD_STR(l->by_id, id, n);
}

static void add_children(struct lineage *l, const struct node *n)
{
	list_for_each (&l->fleet->snapshots, const struct snapshot, sn, link) {
		if (strcmp(sn->project_id, l->project_id) != 0)
			continue;
		if (!n->snapshot && strcmp(sn->source_id, n->id) == 0)
			add(l, sn->id, n->id);
		else if (n->snapshot && strcmp(sn->origin_id, n->id) == 0)
			add(l, sn->source_id, n->id); /* it may be forgotten */
	}
	if (!n->snapshot)
		return;
	list_for_each (&l->fleet->all, const struct sandbox, s, link_all)
		if (strcmp(s->snapshot_id, n->id) == 0 && strcmp(s->project_id, l->project_id) == 0)
			add(l, s->id, n->id);
}

static void put_node(const struct node *n, struct json_writer *w)
{
	const char *name = n->snapshot ? n->snapshot->name : n->sandbox ? n->sandbox->name : "";

	json_open_object(w, NULL);
	json_put_str(w, "kind", n->snapshot ? "snapshot" : "sandbox");
	json_put_str(w, "id", n->id);
	json_put_str(w, "name", name[0] ? name : NULL);
	json_put_str(w, "state",
	             n->snapshot  ? (n->snapshot->is_there ? "ready" : "damaged")
	             : n->sandbox ? sandbox_state_name(n->sandbox->state)
	                          : "gone");
	json_put_str(w, "parent_id", n->parent_id[0] ? n->parent_id : NULL);
	if (n->snapshot || n->sandbox)
		json_put_u64(w, "created_us",
		             n->snapshot ? n->snapshot->created_us : n->sandbox->created_us);
	else
		json_put_null(w, "created_us");
	json_close_object(w);
}

void lineage_to_json(const struct fleet *fleet, const char *project_id, const char *id,
                     struct json_writer *w)
{
	struct lineage l = {.fleet = fleet, .project_id = project_id};
	const char *root = id, *parent = find_parent(&l, id);
	struct node *n;

	for (unsigned i = 0; parent[0] && i < NODES_MAX; i++) {
		root = parent;
		parent = find_parent(&l, root);
	}
	add(&l, root, "");
	json_put_str(w, "root_id", root);
	json_open_array(w, "nodes");
	for (n = l.by_id; n; n = n->hh.next) { /* those that are found come behind */
		add_children(&l, n);
		put_node(n, w);
	}
	json_close_array(w);
	while ((n = l.by_id)) {
		HASH_DEL(l.by_id, n);
		free(n);
	}
}

#define STEPS_MAX 1000 /* of generations; no line is longer, and none goes in a circle */

/* The snapshot that a snapshot's source was started from, or NULL. */
static const struct snapshot *before(const struct fleet *fleet, const struct snapshot *sn)
{
	return sn->origin_id[0] ? snapshot_find(fleet, sn->project_id, sn->origin_id) : NULL;
}

static bool comes_from(const struct sandbox *s, const struct snapshot *sn)
{
	const struct snapshot *at =
		s->snapshot_id[0] ? snapshot_find(s->fleet, s->project_id, s->snapshot_id) : NULL;

	if (strcmp(sn->source_id, s->id) == 0)
		return true;
	for (size_t i = 0; at && i < STEPS_MAX; at = before(s->fleet, at), i++)
		if (at == sn)
			return true;
	return false;
}

const char *lineage_common(struct fleet *fleet, const char *project_id, const char *id_or_name,
                           const struct sandbox *other)
{
	const struct sandbox *s = sandbox_find(fleet, project_id, id_or_name);
	const struct snapshot *at = snapshot_find(fleet, project_id, id_or_name);

	if (s)
		at = s->snapshot_id[0] ? snapshot_find(fleet, project_id, s->snapshot_id) : NULL;
	for (size_t i = 0; at && i < STEPS_MAX; at = before(fleet, at), i++)
		if (at->is_there && comes_from(other, at))
			return at->id;
	return NULL;
}
