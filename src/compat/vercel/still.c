// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots of lodges. The snapshot itself is the daemon's; here is what their wire tells besides,
 * and that one which is gone has been there.
 */
#include "base/log.h"
#include "compat/vercel/lodge.h"
#include "store/faces.h"

#include <stdio.h>
#include <string.h>

#define KIND    "vercel.snapshot"
#define ROW_MAX (64 * 1024)
#define THEIRS  "snap_"
#define OURS    "sn_"

void still_id_in(const char *theirs, char ret[ID_SIZE])
{
	ret[0] = '\0';
	if (strncmp(theirs, THEIRS, strlen(THEIRS)) == 0)
		(void)snprintf(ret, ID_SIZE, OURS "%.*s", ID_RANDOM_LEN + 1,
		               theirs + strlen(THEIRS));
	if (!id_is_valid(ret, "sn"))
		ret[0] = '\0';
}

void still_id_out(const char *ours, char ret[ID_SIZE])
{
	(void)snprintf(ret, ID_SIZE, THEIRS "%.*s", ID_RANDOM_LEN, ours + strlen(OURS));
}

static int save(struct vercel *v, const struct still *still, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct face_row row = {
		.id = still->id, .kind = KIND, .created_us = still->created_ms * 1000};
	struct json_writer w;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "project_id", still->project_id);
	json_put_str(&w, "session_id", still->session_id);
	json_put_str(&w, "parent_id", still->parent_id);
	json_put_str(&w, "space", still->space);
	json_put_str(&w, "lodge", still->lodge);
	json_put_u64(&w, "created_ms", still->created_ms);
	json_put_u64(&w, "updated_ms", still->updated_ms);
	json_put_u64(&w, "used_ms", still->used_ms);
	json_put_u64(&w, "expires_in_ms", still->expires_in_ms);
	json_put_u64(&w, "expires_ms", still->expires_ms);
	json_put_u64(&w, "bytes", still->bytes);
	json_put_bool(&w, "is_manual", still->is_manual);
	json_put_bool(&w, "is_deleted", still->is_deleted);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_INTERNAL, 0, "a snapshot's record is too large");
	row.json = json.data;
	return store_put_face(v->api->store, &row, err);
}

static void note(struct vercel *v, const struct still *still)
{
	struct err err;

	if (save(v, still, &err) < 0)
		log_error("vercel.unsaved", "id=%s error='%s'", still->id, err.message);
}

void still_free(struct still *still)
{
	list_remove(&still->link);
	free(still->space);
	free(still->lodge);
	free(still);
}

static int read_still(struct still *still, const json_t *object)
{
	const char *project_id = "", *session_id = "", *parent_id = "", *space = "", *lodge = "";
	const struct json_field fields[] = {
		{"project_id", JSON_FIELD_STRING, &project_id, true, .max = ID_SIZE - 1},
		{"session_id", JSON_FIELD_STRING, &session_id, true, .max = ID_SIZE - 1},
		{"parent_id", JSON_FIELD_STRING, &parent_id, true, .max = ID_SIZE - 1},
		{"space", JSON_FIELD_STRING, &space, true},
		{"lodge", JSON_FIELD_STRING, &lodge, true},
		{"created_ms", JSON_FIELD_U64, &still->created_ms, true},
		{"updated_ms", JSON_FIELD_U64, &still->updated_ms, true},
		{"used_ms", JSON_FIELD_U64, &still->used_ms, true},
		{"expires_in_ms", JSON_FIELD_U64, &still->expires_in_ms, true},
		{"expires_ms", JSON_FIELD_U64, &still->expires_ms, true},
		{"bytes", JSON_FIELD_U64, &still->bytes, true},
		{"is_manual", JSON_FIELD_BOOL, &still->is_manual, true},
		{"is_deleted", JSON_FIELD_BOOL, &still->is_deleted, true},
	};
	int r = json_read(object, "", fields, ARRAY_SIZE(fields), NULL);

	(void)snprintf(still->project_id, sizeof(still->project_id), "%s", project_id);
	(void)snprintf(still->session_id, sizeof(still->session_id), "%s", session_id);
	(void)snprintf(still->parent_id, sizeof(still->parent_id), "%s", parent_id);
	still->space = xstrdup(space);
	still->lodge = xstrdup(lodge);
	return r;
}

static int load_still(const struct face_row *row, void *arg)
{
	auto_json json_t *object = NULL;
	struct vercel *v = arg;
	struct still *still = xnew0(struct still);

	(void)snprintf(still->id, sizeof(still->id), "%s", row->id);
	list_append(&v->stills, &still->link);
	if (json_parse(row->json, strlen(row->json), &object, NULL) < 0 ||
	    read_still(still, object) < 0) {
		log_error("vercel.unreadable", "id=%s", row->id);
		still_free(still);
	}
	return 0;
}

int stills_load(struct vercel *v, struct err *err)
{
	return store_each_face(v->api->store, KIND, load_still, v, err);
}

struct still *still_find(const struct vercel *v, const char *project_id, const char *id)
{
	list_for_each (&v->stills, struct still, still, link)
		if (strcmp(still->id, id) == 0 && strcmp(still->project_id, project_id) == 0)
			return still;
	return NULL;
}

static bool is_of(const struct still *still, const struct lodge *b)
{
	return strcmp(still->project_id, b->project_id) == 0 &&
	       strcmp(still->space, b->space) == 0 && strcmp(still->lodge, b->name) == 0;
}

struct still *still_add(struct stay *s, const struct snapshot *sn, uint64_t expires_in_ms,
                        bool is_manual)
{
	struct lodge *b = s->lodge;
	struct still *still = xnew0(struct still);

	(void)snprintf(still->id, sizeof(still->id), "%s", snapshot_id(sn));
	(void)snprintf(still->project_id, sizeof(still->project_id), "%s", b->project_id);
	(void)snprintf(still->session_id, sizeof(still->session_id), "%s", s->id);
	(void)snprintf(still->parent_id, sizeof(still->parent_id), "%s", s->source);
	still->space = xstrdup(b->space);
	still->lodge = xstrdup(b->name);
	still->created_ms = still->updated_ms = vercel_now_ms();
	still->expires_in_ms = expires_in_ms;
	still->expires_ms = expires_in_ms ? still->created_ms + expires_in_ms : 0;
	still->bytes = snapshot_bytes(sn);
	still->is_manual = is_manual;
	list_append(&b->vercel->stills, &still->link);
	note(b->vercel, still);
	return still;
}

void still_look(struct vercel *v, struct still *still)
{
	if (still->is_deleted || snapshot_find(v->api->fleet, still->project_id, still->id))
		return;
	still->is_deleted = true;
	still->updated_ms = vercel_now_ms();
	note(v, still);
}

/* Its time begins anew. */
void still_use(struct vercel *v, struct still *still)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, still->project_id, still->id);
	const struct snapshot_patch patch = {.has_expiry = true,
	                                     .expires_in_ms = still->expires_in_ms};
	struct err err;

	still->used_ms = vercel_now_ms();
	if (still->expires_in_ms && sn && snapshot_update(sn, &patch, &err) == 0)
		still->expires_ms = still->used_ms + still->expires_in_ms;
	note(v, still);
}

int still_delete(struct vercel *v, struct still *still, struct err *err)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, still->project_id, still->id);
	int r = sn ? snapshot_remove(sn, err) : 0;

	if (r < 0)
		return r;
	still->is_deleted = true;
	still->updated_ms = vercel_now_ms();
	return save(v, still, err);
}

static void let_expire(struct vercel *v, struct still *still, uint64_t in_ms)
{
	struct snapshot *sn = snapshot_find(v->api->fleet, still->project_id, still->id);
	const struct snapshot_patch patch = {.has_expiry = true, .expires_in_ms = in_ms};
	struct err err;

	if (!sn || snapshot_update(sn, &patch, &err) < 0)
		return;
	still->expires_in_ms = in_ms;
	still->expires_ms = in_ms ? vercel_now_ms() + in_ms : 0;
	note(v, still);
}

/* Those that are deleted and so many back that nobody asks for them. */
static void forget_old(struct lodge *b)
{
	size_t n_own = 0, n_all = 0;

	for (struct list *l = b->vercel->stills.prev, *before; l != &b->vercel->stills;
	     l = before) {
		struct still *still = list_entry(l, struct still, link);
		bool is_too_many;

		before = l->prev;
		if (!still->is_deleted)
			continue;
		is_too_many = ++n_all > STILLS_GONE;
		is_too_many |= is_of(still, b) && ++n_own > STILLS_KEPT;
		if (is_too_many && store_delete_face(b->vercel->api->store, still->id, NULL) == 0)
			still_free(still);
	}
}

void stills_evict(struct lodge *b)
{
	const struct lodge_config *c = &b->config;
	uint64_t n = 0;
	struct err err;

	for (struct list *l = b->vercel->stills.prev; c->keep_last && l != &b->vercel->stills;
	     l = l->prev) {
		struct still *still = list_entry(l, struct still, link);

		if (!is_of(still, b) || still->is_deleted)
			continue;
		if (++n <= c->keep_last) {
			if (c->has_keep_expiry)
				let_expire(b->vercel, still, c->keep_last_expires_ms);
		} else if (!c->keeps_evicted && still_delete(b->vercel, still, &err) < 0) {
			log_warn("vercel.snapshot_stays", "id=%s error='%s'", still->id,
			         err.message);
		}
	}
	forget_old(b);
}
