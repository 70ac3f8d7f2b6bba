// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots and forks. Both have the memory of their source if this host can save it, else only its
 * files.
 */
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include "api/frame/cursor.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/nodes/node_list.h"
#include "sandbox/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

#define LIST_LIMIT   100
#define FORK_SECONDS 15
#define ID_TAG       ":default"

static void put_fields(const struct snapshot *sn, struct json_writer *w)
{
	const char *name = snapshot_name(sn);
	char id[ID_SIZE + sizeof(ID_TAG) + SNAPSHOT_NAME_MAX];

	(void)snprintf(id, sizeof(id), "%s" ID_TAG, name[0] ? name : snapshot_id(sn));
	json_put_str(w, "snapshotID", id);
	json_open_array(w, "names");
	if (name[0])
		json_put_str(w, NULL, name);
	json_close_array(w);
}

static void put_snapshot(const struct snapshot *sn, struct json_writer *w)
{
	json_open_object(w, NULL);
	put_fields(sn, w);
	json_close_object(w);
}

struct taking {
	struct late_reply late;
	struct fleet *fleet;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	char name[SNAPSHOT_NAME_MAX + 1];
	bool has_memory;
};

static int take(struct taking *t, struct err *err);

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct taking *t = arg;
	struct http_req *req;
	struct reply reply;
	struct err failure;

	if (err && err->code == ERR_UNSUPPORTED && t->has_memory) {
		t->has_memory = false;
		if (take(t, &failure) == 0)
			return;
		err = &failure;
	}
	req = late_reply_take(t, err);
	if (!req)
		return;
	put_snapshot(sn, reply_begin_bare(&reply));
	reply_send_late(&reply, req, 201);
}

static int take(struct taking *t, struct err *err)
{
	const struct snapshot_wish wish = {.name = t->name[0] ? t->name : NULL,
	                                   .has_memory = t->has_memory,
	                                   .closes_connections = true};
	struct sandbox *s = sandbox_find(t->fleet, t->project_id, t->sandbox_id);

	if (!s)
		return err_set(err, ERR_NOT_FOUND, 0, "sandbox not found");
	return snapshot_take(s, &wish, on_taken, t, err);
}

/* Takes the name from an older snapshot, so that a new one can have it. */
static int free_name(struct fleet *fleet, const char *project_id, const char *name, struct err *err)
{
	const struct snapshot_patch patch = {.name = ""};
	struct snapshot *sn = name ? snapshot_find(fleet, project_id, name) : NULL;

	return sn ? snapshot_update(sn, &patch, err) : 0;
}

int e2b_create_snapshot(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL;
	struct sandbox *s;
	struct taking *t;
	int r = body_text(http_json(req), "name", &name, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r == 0 && name && strlen(name) > SNAPSHOT_NAME_MAX)
		r = err_field(err, "name", "is too long");
	if (r == 0)
		r = free_name(api->fleet, caller_project(req), name, err);
	if (r < 0)
		return r;
	t = late_reply_new(req, sizeof(*t));
	t->fleet = api->fleet;
	t->has_memory = true;
	(void)snprintf(t->project_id, sizeof(t->project_id), "%s", caller_project(req));
	(void)snprintf(t->sandbox_id, sizeof(t->sandbox_id), "%s", sandbox_id(s));
	(void)snprintf(t->name, sizeof(t->name), "%s", name ? name : "");
	r = take(t, err);
	return r < 0 ? late_reply_drop(t, r) : r;
}

struct list_query {
	struct snapshot_filter filter;
	const char *name; /* NULL = any */
	char source_id[ID_SIZE], after_id[ID_SIZE];
};

static int read_list(const struct http_req *req, struct list_query *q, struct err *err)
{
	const char *source = http_query(req, "sandboxID"), *token = http_query(req, "nextToken");
	uint64_t limit = LIST_LIMIT;
	int r = http_query_u64(req, "limit", 1, LIST_LIMIT, &limit, err);

	*q = (struct list_query){.filter = {.project_id = caller_project(req)},
	                         .name = http_query(req, "name")};
	if (r == 0 && token && token[0]) {
		r = cursor_parse_at(token, "sn", q->after_id, &q->filter.after_us, err);
		q->filter.after_id = q->after_id;
	}
	if (source) {
		e2b_native_id(source, q->source_id);
		q->filter.source_id = q->source_id;
	}
	q->filter.limit = (size_t)limit;
	q->filter.is_ordered = http_hop_from(req) || q->filter.after_us != 0;
	return r;
}

static bool is_wanted(const struct list_query *q, const struct snapshot *sn)
{
	return !q->name || strcmp(q->name, snapshot_name(sn)) == 0;
}

static void tell_next(struct http_req *req, const char *id, uint64_t us)
{
	char cursor[CURSOR_SIZE];

	if (us)
		cursor_make_at(id, us, cursor);
	else
		cursor_make(id, cursor);
	http_reply_header(req, "X-Next-Token", cursor);
}

struct page {
	const struct list_query *query;
	struct json_writer *w;
	const struct snapshot *last;
	bool is_for_peer; /* rows tell what they are merged by */
};

static void put_row(const struct snapshot *sn, void *arg)
{
	struct page *page = arg;

	page->last = sn;
	if (!is_wanted(page->query, sn))
		return;
	json_open_object(page->w, NULL);
	put_fields(sn, page->w);
	if (page->is_for_peer) {
		json_put_str(page->w, "id", snapshot_id(sn));
		json_put_u64(page->w, "created_us", snapshot_created_us(sn));
	}
	json_close_object(page->w);
}

/* What this node has: for a client of a node that is alone, or for another node that asks. */
static int reply_page(struct http_req *req, const struct list_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct page page = {.query = q, .is_for_peer = http_hop_from(req) != 0};
	bool has_more = false;
	struct reply reply;

	page.w = reply_begin_bare(&reply);
	json_open_array(page.w, NULL);
	snapshot_list(api->fleet, &q->filter, put_row, &page, &has_more);
	json_close_array(page.w);
	if (has_more)
		tell_next(req, snapshot_id(page.last),
		          q->filter.is_ordered ? snapshot_created_us(page.last) : 0);
	return reply_send(&reply, req, 200, err);
}

static void add_own(const struct snapshot *sn, void *arg)
{
	node_list_add_own(arg, snapshot_created_us(sn), snapshot_id(sn), sn);
}

static void put_listed(const struct list_query *q, const struct node_row *row,
                       struct json_writer *w)
{
	if (!row->row) {
		if (is_wanted(q, row->own))
			put_snapshot(row->own, w);
		return;
	}
	(void)json_object_del(row->row, "id");
	(void)json_object_del(row->row, "created_us");
	json_put_value(w, NULL, row->row);
}

/* Of all nodes of the cluster. */
static int reply_all(struct http_req *req, struct node_list *l, struct err *err)
{
	struct list_query q;
	bool has_more = false;
	struct json_writer *w;
	struct reply reply;
	int r = read_list(req, &q, err);

	if (r < 0)
		return r;
	q.filter.is_ordered = true;
	snapshot_list(l->api->fleet, &q.filter, add_own, l, &has_more);
	if (has_more)
		node_list_own_has_more(l);
	node_list_merge(l, q.filter.limit);
	if (l->has_more && l->n_rows > 0)
		tell_next(req, l->rows[l->n_rows - 1].id, l->rows[l->n_rows - 1].us);
	w = reply_begin_bare(&reply);
	json_open_array(w, NULL);
	for (size_t i = 0; i < l->n_rows; i++)
		put_listed(&q, &l->rows[i], w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int e2b_list_snapshots(struct http_req *req, struct err *err)
{
	static const struct node_list_kind kind = {
		.id_kind = "sn", .id_field = "id", .time_field = "created_us", .finish = reply_all};
	struct list_query q;
	int r = read_list(req, &q, err);

	if (r == 0)
		r = node_list_begin(req, &kind, err);
	return r == 0 ? reply_page(req, &q, err) : r;
}

struct forking {
	struct late_reply late;
	struct fleet *fleet;
	char project_id[ID_SIZE];
	uint32_t count;
	struct {
		char id[ID_SIZE]; /* "" = see err */
		struct err err;
	} at[];
};

/* Each has a token of its own. */
static void on_one(uint32_t i, struct sandbox *s, const struct err *err, void *arg)
{
	struct forking *f = arg;
	char token[KEY_TOKEN_SIZE];
	struct notes n;

	if (!s) {
		f->at[i].err = *err;
		return;
	}
	(void)snprintf(f->at[i].id, sizeof(f->at[i].id), "%s", sandbox_id(s));
	notes_read(s, &n);
	if (!n.tokens.first)
		return;
	key_token_make(token);
	if (notes_set(s, "token", json_string(token), &f->at[i].err) < 0)
		f->at[i].id[0] = '\0';
}

static void put_fork(const struct forking *f, uint32_t i, struct json_writer *w)
{
	const struct sandbox *s =
		f->at[i].id[0] ? sandbox_find(f->fleet, f->project_id, f->at[i].id) : NULL;

	json_open_object(w, NULL);
	if (s) {
		e2b_put_sandbox(f->late.req, s, w, "sandbox");
	} else {
		json_open_object(w, "error");
		json_put_i64(w, "code", err_code_status(f->at[i].err.code));
		json_put_str(w, "message", f->at[i].err.message);
		json_close_object(w);
	}
	json_close_object(w);
}

static void on_forked(struct snapshot *sn, const struct fork_memory *memory, const struct err *err,
                      void *arg)
{
	struct forking *f = arg;
	struct http_req *req = f->late.req;
	struct json_writer *w;
	struct reply reply;

	(void)sn;
	(void)memory;
	if (req && !err) {
		w = reply_begin_bare(&reply);
		json_open_array(w, NULL);
		for (uint32_t i = 0; i < f->count; i++)
			put_fork(f, i, w);
		json_close_array(w);
		reply_send_late(&reply, req, 201);
	}
	(void)late_reply_take(f, err);
}

static int read_fork(const json_t *body, struct fork_spec *ret, struct err *err)
{
	int64_t seconds = FORK_SECONDS, count = 1;
	int r = body_int(body, "timeout", &seconds, NULL, err);

	if (r == 0)
		r = body_int(body, "count", &count, NULL, err);
	if (r == 0 && (count < 1 || count > FORK_MAX))
		r = err_field(err, "count", "must be from 1 to %d", FORK_MAX);
	if (r == 0 && (seconds < 1 || seconds > UINT32_MAX))
		r = err_field(err, "timeout", "must be greater than 0");
	*ret = (struct fork_spec){
		.count = (uint32_t)count,
		.has_memory = true,
		.closes_connections = true,
		.sandbox = {.timeout_ms = (uint64_t)seconds * 1000, .engine = "auto"}};
	return r;
}

int e2b_fork_sandbox(struct http_req *req, struct err *err)
{
	static const struct fork_ops ops = {on_one, on_forked};
	const struct api *api = http_app_arg(req);
	auto_json json_t *notes = NULL;
	struct sandbox_facts facts;
	struct fork_spec spec;
	struct forking *f;
	struct sandbox *s;
	int r = read_fork(http_json(req), &spec, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	sandbox_facts(s, &facts);
	notes = notes_of_copy(s);
	spec.sandbox.notes = notes;
	spec.sandbox.key_id = key_id(http_user(req));
	spec.sandbox.on_timeout = timeout_action_name(facts.on_timeout);
	spec.sandbox.auto_resumes = facts.auto_resumes;
	f = late_reply_new(req, sizeof(*f) + spec.count * sizeof(f->at[0]));
	f->fleet = api->fleet;
	f->count = spec.count;
	(void)snprintf(f->project_id, sizeof(f->project_id), "%s", caller_project(req));
	r = sandbox_fork(s, &spec, &ops, f, err);
	if (r < 0 && err->code == ERR_UNSUPPORTED) {
		spec.has_memory = false;
		r = sandbox_fork(s, &spec, &ops, f, err);
	}
	return r < 0 ? late_reply_drop(f, r) : r;
}
