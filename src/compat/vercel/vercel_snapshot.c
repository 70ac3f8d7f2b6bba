// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots of sandboxes. The snapshot itself is the daemon's; this file has what Vercel's API
 * shows in addition, and remembers deleted snapshots.
 */
#include "base/json/row_fields.h"
#include "base/log.h"
#include "compat/vercel/vercel_sandbox.h"
#include "store/tables/faces.h"

#include <stdio.h>
#include <string.h>

#define KIND    "vercel.snapshot"
#define ROW_MAX (64 * 1024)
#define THEIRS  "snap_"
#define OURS    "sn_"

#define FIELD(...) ROW_FIELD(vercel_snapshot, __VA_ARGS__, .is_required = true)
/* clang-format off */
static const struct row_field fields[] = {
	FIELD("project_id",    ROW_TEXT,   project_id, .max = ID_SIZE - 1),
	FIELD("session_id",    ROW_TEXT,   session_id, .max = ID_SIZE - 1),
	FIELD("parent_id",     ROW_TEXT,   parent_id, .max = ID_SIZE - 1),
	FIELD("space",         ROW_STRING, space),
	FIELD("lodge",         ROW_STRING, sandbox), /* as older releases wrote it */
	FIELD("created_ms",    ROW_U64,    created_ms),
	FIELD("updated_ms",    ROW_U64,    updated_ms),
	FIELD("used_ms",       ROW_U64,    used_ms),
	FIELD("expires_in_ms", ROW_U64,    expires_in_ms),
	FIELD("expires_ms",    ROW_U64,    expires_ms),
	FIELD("bytes",         ROW_U64,    bytes),
	FIELD("is_manual",     ROW_BOOL,   is_manual),
	FIELD("is_deleted",    ROW_BOOL,   is_deleted),
};
/* clang-format on */

void vercel_snapshot_id_in(const char *theirs, char ret[ID_SIZE])
{
	ret[0] = '\0';
	if (strncmp(theirs, THEIRS, strlen(THEIRS)) == 0)
		(void)snprintf(ret, ID_SIZE, OURS "%.*s", ID_RANDOM_LEN + 1,
		               theirs + strlen(THEIRS));
	if (!id_is_valid(ret, "sn"))
		ret[0] = '\0';
}

void vercel_snapshot_id_out(const char *ours, char ret[ID_SIZE])
{
	(void)snprintf(ret, ID_SIZE, THEIRS "%.*s", ID_RANDOM_LEN, ours + strlen(OURS));
}

static int save(struct vercel *v, const struct vercel_snapshot *snapshot, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct face_row row = {
		.id = snapshot->id, .kind = KIND, .created_us = snapshot->created_ms * 1000};
	struct json_writer w;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	row_fields_put(fields, ARRAY_SIZE(fields), snapshot, &w);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_INTERNAL, 0, "a snapshot's record is too large");
	row.json = json.data;
	return store_put_face(v->api->store, &row, err);
}

static void note(struct vercel *v, const struct vercel_snapshot *snapshot)
{
	struct err err;

	if (save(v, snapshot, &err) < 0)
		log_error("vercel.not_saved", "id=%s error='%s'", snapshot->id, err.message);
}

void vercel_snapshot_free(struct vercel_snapshot *snapshot)
{
	list_remove(&snapshot->link);
	free(snapshot->space);
	free(snapshot->sandbox);
	free(snapshot);
}

static int load_vercel_snapshot(const struct face_row *row, void *arg)
{
	auto_json json_t *object = NULL;
	struct vercel *v = arg;
	struct vercel_snapshot *snapshot = xnew0(struct vercel_snapshot);

	(void)snprintf(snapshot->id, sizeof(snapshot->id), "%s", row->id);
	list_append(&v->snapshots, &snapshot->link);
	if (json_parse(row->json, strlen(row->json), &object, NULL) < 0 ||
	    row_fields_read(fields, ARRAY_SIZE(fields), NULL, 0, object, snapshot) < 0) {
		log_error("vercel.unreadable", "id=%s", row->id);
		vercel_snapshot_free(snapshot);
	}
	return 0;
}

int vercel_snapshots_load(struct vercel *v, struct err *err)
{
	return store_each_face(v->api->store, KIND, load_vercel_snapshot, v, err);
}

struct vercel_snapshot *vercel_snapshot_find(const struct vercel *v, const char *project_id,
                                             const char *id)
{
	list_for_each (&v->snapshots, struct vercel_snapshot, snapshot, link)
		if (strcmp(snapshot->id, id) == 0 && strcmp(snapshot->project_id, project_id) == 0)
			return snapshot;
	return NULL;
}

static bool is_of(const struct vercel_snapshot *snapshot, const struct vercel_sandbox *box)
{
	return strcmp(snapshot->project_id, box->project_id) == 0 &&
	       strcmp(snapshot->space, box->space) == 0 &&
	       strcmp(snapshot->sandbox, box->name) == 0;
}

struct vercel_snapshot *vercel_snapshot_add(struct vercel_session *s, const struct snapshot *sn,
                                            uint64_t expires_in_ms, bool is_manual)
{
	struct vercel_sandbox *box = s->sandbox;
	struct vercel_snapshot *snapshot = xnew0(struct vercel_snapshot);

	(void)snprintf(snapshot->id, sizeof(snapshot->id), "%s", snapshot_id(sn));
	(void)snprintf(snapshot->project_id, sizeof(snapshot->project_id), "%s", box->project_id);
	(void)snprintf(snapshot->session_id, sizeof(snapshot->session_id), "%s", s->id);
	(void)snprintf(snapshot->parent_id, sizeof(snapshot->parent_id), "%s", s->source);
	snapshot->space = xstrdup(box->space);
	snapshot->sandbox = xstrdup(box->name);
	snapshot->created_ms = snapshot->updated_ms = vercel_now_ms();
	snapshot->expires_in_ms = expires_in_ms;
	snapshot->expires_ms = expires_in_ms ? snapshot->created_ms + expires_in_ms : 0;
	snapshot->bytes = snapshot_bytes(sn);
	snapshot->is_manual = is_manual;
	list_append(&box->vercel->snapshots, &snapshot->link);
	note(box->vercel, snapshot);
	return snapshot;
}

void vercel_snapshot_look(struct vercel *v, struct vercel_snapshot *snapshot)
{
	if (snapshot->is_deleted ||
	    snapshot_find(v->api->fleet, snapshot->project_id, snapshot->id))
		return;
	snapshot->is_deleted = true;
	snapshot->updated_ms = vercel_now_ms();
	note(v, snapshot);
}

/* Restarts its time to live. */
void vercel_snapshot_use(struct vercel *v, struct vercel_snapshot *snapshot)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, snapshot->project_id, snapshot->id);
	const struct snapshot_patch patch = {.has_expiry = true,
	                                     .expires_in_ms = snapshot->expires_in_ms};
	struct err err;

	snapshot->used_ms = vercel_now_ms();
	if (snapshot->expires_in_ms && sn && snapshot_update(sn, &patch, &err) == 0)
		snapshot->expires_ms = snapshot->used_ms + snapshot->expires_in_ms;
	note(v, snapshot);
}

int vercel_snapshot_delete(struct vercel *v, struct vercel_snapshot *snapshot, struct err *err)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, snapshot->project_id, snapshot->id);
	int r = sn ? snapshot_remove(sn, err) : 0;

	if (r < 0)
		return r;
	snapshot->is_deleted = true;
	snapshot->updated_ms = vercel_now_ms();
	return save(v, snapshot, err);
}

static void let_expire(struct vercel *v, struct vercel_snapshot *snapshot, uint64_t in_ms)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, snapshot->project_id, snapshot->id);
	const struct snapshot_patch patch = {.has_expiry = true, .expires_in_ms = in_ms};
	struct err err;

	if (!sn || snapshot_update(sn, &patch, &err) < 0)
		return;
	snapshot->expires_in_ms = in_ms;
	snapshot->expires_ms = in_ms ? vercel_now_ms() + in_ms : 0;
	note(v, snapshot);
}

/* Forgets the oldest deleted snapshots. */
static void forget_old(struct vercel_sandbox *box)
{
	size_t n_own = 0, n_all = 0;

	for (struct list *l = box->vercel->snapshots.prev, *before; l != &box->vercel->snapshots;
	     l = before) {
		struct vercel_snapshot *snapshot = list_entry(l, struct vercel_snapshot, link);
		bool is_too_many;

		before = l->prev;
		if (!snapshot->is_deleted)
			continue;
		is_too_many = ++n_all > DELETED_SNAPSHOTS_MAX;
		is_too_many |= is_of(snapshot, box) && ++n_own > DELETED_SNAPSHOTS_KEPT;
		if (is_too_many &&
		    store_delete_face(box->vercel->api->store, snapshot->id, NULL) == 0)
			vercel_snapshot_free(snapshot);
	}
}

void vercel_snapshots_evict(struct vercel_sandbox *box)
{
	const struct vercel_sandbox_config *c = &box->config;
	uint64_t n = 0;
	struct err err;

	for (struct list *l = box->vercel->snapshots.prev;
	     c->keep_last && l != &box->vercel->snapshots; l = l->prev) {
		struct vercel_snapshot *snapshot = list_entry(l, struct vercel_snapshot, link);

		if (!is_of(snapshot, box) || snapshot->is_deleted)
			continue;
		if (++n <= c->keep_last) {
			if (c->has_keep_expiry)
				let_expire(box->vercel, snapshot, c->keep_last_expires_ms);
		} else if (!c->keeps_evicted &&
		           vercel_snapshot_delete(box->vercel, snapshot, &err) < 0) {
			log_warn("vercel.snapshot_not_removed", "id=%s error='%s'", snapshot->id,
			         err.message);
		}
	}
	forget_old(box);
}
