// SPDX-License-Identifier: Apache-2.0
/* Sandboxes and their sessions as rows of the store. */
#include "base/clock.h"
#include "base/log.h"
#include "compat/vercel/vercel_sandbox.h"
#include "store/tables/faces.h"

#include <stdio.h>
#include <string.h>

#define KIND    "vercel.sandbox"
#define ROW_MAX (4 * 1024 * 1024)

uint64_t vercel_now_ms(void)
{
	return clock_wall_us() / 1000;
}

static void set_text(char **to, const char *text)
{
	free(*to);
	*to = text ? xstrdup(text) : NULL;
}

static void set_json(json_t **to, const json_t *value, json_t *fallback)
{
	json_decref(*to);
	*to = value ? json_deep_copy(value) : json_incref(fallback);
	json_decref(fallback);
}

struct vercel_session *vercel_sandbox_session(const struct vercel_sandbox *box)
{
	return list_empty(&box->sessions)
	               ? NULL
	               : list_entry(box->sessions.prev, struct vercel_session, link);
}

void vercel_session_free(struct vercel_session *s)
{
	HASH_DEL(s->sandbox->vercel->sessions, s);
	list_remove(&s->link);
	s->sandbox->n_sessions--;
	json_decref(s->tokens);
	free(s);
}

struct vercel_session *vercel_session_new(struct vercel_sandbox *box, const char *id)
{
	struct vercel_session *s = xnew0(struct vercel_session),
			      *oldest = list_first(&box->sessions, struct vercel_session, link);

	if (oldest && box->n_sessions == SESSIONS_KEPT)
		vercel_session_free(oldest);
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	s->sandbox = box;
	list_append(&box->sessions, &s->link);
	HASH_ADD_STR(box->vercel->sessions, id, s);
	box->n_sessions++;
	return s;
}

void vercel_sandbox_config_done(struct vercel_sandbox_config *c)
{
	free(c->runtime);
	free(c->image);
	free(c->region);
	free(c->network_id);
	json_decref(c->env);
	json_decref(c->tags);
	json_decref(c->mounts);
	json_decref(c->ports);
	json_decref(c->failover_regions);
	json_decref(c->policy);
}

struct vercel_sandbox *vercel_sandbox_new(struct vercel *v, const char *project_id,
                                          const char *name)
{
	struct vercel_sandbox *box = xnew0(struct vercel_sandbox);

	box->vercel = v;
	id_make(box->id, "lg");
	(void)snprintf(box->project_id, sizeof(box->project_id), "%s", project_id);
	box->name = xstrdup(name);
	box->space = xstrdup("");
	box->created_ms = box->updated_ms = box->status_ms = vercel_now_ms();
	list_init(&box->sessions);
	list_init(&box->starts);
	list_init(&box->stops);
	list_append(&v->sandboxes, &box->link);
	v->n_sandboxes++;
	return box;
}

void vercel_sandbox_free(struct vercel_sandbox *box)
{
	list_for_each (&box->sessions, struct vercel_session, s, link)
		vercel_session_free(s);
	vercel_sandbox_forget_waits(box);
	list_remove(&box->link);
	box->vercel->n_sandboxes--;
	vercel_sandbox_config_done(&box->config);
	json_decref(box->source);
	free(box->space);
	free(box->name);
	free(box);
}

void vercel_sandbox_remove(struct vercel_sandbox *box)
{
	struct err err;

	if (store_delete_face(box->vercel->api->store, box->id, &err) < 0)
		log_error("vercel.unsaved", "id=%s error='%s'", box->id, err.message);
	vercel_sandbox_free(box);
}

static void put_config(const struct vercel_sandbox_config *c, struct json_writer *w)
{
	json_open_object(w, "config");
	json_put_bool(w, "persistent", c->is_persistent);
	json_put_u64(w, "vcpus", c->vcpus);
	json_put_u64(w, "memory_mib", c->memory_mib);
	json_put_u64(w, "timeout_ms", c->timeout_ms);
	json_put_u64(w, "snapshot_expires_ms", c->snapshot_expires_ms);
	json_put_u64(w, "keep_last", c->keep_last);
	json_put_u64(w, "keep_last_expires_ms", c->keep_last_expires_ms);
	json_put_bool(w, "has_keep_expiry", c->has_keep_expiry);
	json_put_bool(w, "keeps_evicted", c->keeps_evicted);
	json_put_str(w, "runtime", c->runtime);
	json_put_str(w, "image", c->image);
	json_put_str(w, "region", c->region);
	json_put_str(w, "network_id", c->network_id);
	json_put_value(w, "env", c->env);
	json_put_value(w, "tags", c->tags);
	json_put_value(w, "mounts", c->mounts);
	json_put_value(w, "ports", c->ports);
	json_put_value(w, "failover_regions", c->failover_regions);
	json_put_value(w, "policy", c->policy);
	json_close_object(w);
}

static void put_session(const struct vercel_session *s, struct json_writer *w)
{
	json_open_object(w, NULL);
	json_put_str(w, "id", s->id);
	json_put_u64(w, "requested_ms", s->requested_ms);
	json_put_u64(w, "started_ms", s->started_ms);
	json_put_u64(w, "stop_asked_ms", s->stop_asked_ms);
	json_put_u64(w, "stopped_ms", s->stopped_ms);
	json_put_u64(w, "snapshotted_ms", s->snapshotted_ms);
	json_put_u64(w, "timeout_ms", s->timeout_ms);
	json_put_u64(w, "vcpus", s->vcpus);
	json_put_u64(w, "memory_mib", s->memory_mib);
	json_put_u64(w, "cpu_ms", s->cpu_ms);
	json_put_u64(w, "in_bytes", s->in_bytes);
	json_put_u64(w, "out_bytes", s->out_bytes);
	json_put_str(w, "source", s->source);
	json_put_bool(w, "is_over", s->is_over);
	json_put_bool(w, "is_aborted", s->is_aborted);
	json_close_object(w);
}

static int row_json(const struct vercel_sandbox *box, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "project_id", box->project_id);
	json_put_str(&w, "key_id", box->key_id);
	json_put_str(&w, "space", box->space);
	json_put_str(&w, "name", box->name);
	json_put_str(&w, "snapshot", box->snapshot);
	json_put_u64(&w, "created_ms", box->created_ms);
	json_put_u64(&w, "updated_ms", box->updated_ms);
	json_put_u64(&w, "status_ms", box->status_ms);
	json_put_u64(&w, "cpu_ms", box->cpu_ms);
	json_put_u64(&w, "in_bytes", box->in_bytes);
	json_put_u64(&w, "out_bytes", box->out_bytes);
	json_put_u64(&w, "duration_ms", box->duration_ms);
	put_config(&box->config, &w);
	json_open_array(&w, "sessions");
	list_for_each (&box->sessions, const struct vercel_session, s, link)
		put_session(s, &w);
	json_close_array(&w);
	json_close_object(&w);
	return json_writer_end(&w);
}

int vercel_sandbox_save(const struct vercel_sandbox *box, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct face_row row = {.id = box->id, .kind = KIND, .created_us = box->created_ms * 1000};
	int r = row_json(box, &json);

	if (r < 0)
		return err_set(err, ERR_TOO_LARGE, 0, "the sandbox's settings are too large");
	row.json = json.data;
	return store_put_face(box->vercel->api->store, &row, err);
}

void vercel_sandbox_note(const struct vercel_sandbox *box)
{
	struct err err;

	if (vercel_sandbox_save(box, &err) < 0)
		log_error("vercel.unsaved", "id=%s error='%s'", box->id, err.message);
}

static int read_config(const json_t *object, struct vercel_sandbox_config *c)
{
	const char *runtime = NULL, *image = NULL, *region = NULL, *network_id = NULL;
	json_t *env = NULL, *tags = NULL, *ports = NULL, *failover = NULL, *policy = NULL;
	json_t *mounts = NULL;
	const struct json_field fields[] = {
		{"persistent", JSON_FIELD_BOOL, &c->is_persistent, true},
		{"vcpus", JSON_FIELD_U64, &c->vcpus, true},
		{"memory_mib", JSON_FIELD_U64, &c->memory_mib, true},
		{"timeout_ms", JSON_FIELD_U64, &c->timeout_ms, true},
		{"snapshot_expires_ms", JSON_FIELD_U64, &c->snapshot_expires_ms, true},
		{"keep_last", JSON_FIELD_U64, &c->keep_last, true},
		{"keep_last_expires_ms", JSON_FIELD_U64, &c->keep_last_expires_ms, true},
		{"has_keep_expiry", JSON_FIELD_BOOL, &c->has_keep_expiry, true},
		{"keeps_evicted", JSON_FIELD_BOOL, &c->keeps_evicted, true},
		{"runtime", JSON_FIELD_STRING, &runtime},
		{"image", JSON_FIELD_STRING, &image},
		{"region", JSON_FIELD_STRING, &region},
		{"network_id", JSON_FIELD_STRING, &network_id},
		{"env", JSON_FIELD_OBJECT, &env, true},
		{"tags", JSON_FIELD_OBJECT, &tags, true},
		{"mounts", JSON_FIELD_OBJECT, &mounts}, /* not in the first rows */
		{"ports", JSON_FIELD_ARRAY, &ports, true},
		{"failover_regions", JSON_FIELD_ARRAY, &failover, true},
		{"policy", JSON_FIELD_OBJECT, &policy, true},
	};
	int r = json_read(object, "config.", fields, ARRAY_SIZE(fields), NULL);

	if (r < 0)
		return r;
	set_text(&c->runtime, runtime);
	set_text(&c->image, image);
	set_text(&c->region, region);
	set_text(&c->network_id, network_id);
	set_json(&c->env, env, json_object());
	set_json(&c->tags, tags, json_object());
	set_json(&c->mounts, mounts, json_object());
	set_json(&c->ports, ports, json_array());
	set_json(&c->failover_regions, failover, json_array());
	set_json(&c->policy, policy, json_object());
	return 0;
}

static int read_session(struct vercel_sandbox *box, const json_t *object)
{
	struct vercel_session s = {0}, *made;
	const char *id = "", *source = "";
	const struct json_field fields[] = {
		{"id", JSON_FIELD_STRING, &id, true},
		{"requested_ms", JSON_FIELD_U64, &s.requested_ms, true},
		{"started_ms", JSON_FIELD_U64, &s.started_ms, true},
		{"stop_asked_ms", JSON_FIELD_U64, &s.stop_asked_ms, true},
		{"stopped_ms", JSON_FIELD_U64, &s.stopped_ms, true},
		{"snapshotted_ms", JSON_FIELD_U64, &s.snapshotted_ms, true},
		{"timeout_ms", JSON_FIELD_U64, &s.timeout_ms, true},
		{"vcpus", JSON_FIELD_U64, &s.vcpus, true},
		{"memory_mib", JSON_FIELD_U64, &s.memory_mib, true},
		{"cpu_ms", JSON_FIELD_U64, &s.cpu_ms, true},
		{"in_bytes", JSON_FIELD_U64, &s.in_bytes, true},
		{"out_bytes", JSON_FIELD_U64, &s.out_bytes, true},
		{"source", JSON_FIELD_STRING, &source, true},
		{"is_over", JSON_FIELD_BOOL, &s.is_over, true},
		{"is_aborted", JSON_FIELD_BOOL, &s.is_aborted, true},
	};
	int r = json_read(object, "sessions.", fields, ARRAY_SIZE(fields), NULL);

	if (r < 0 || !id_is_valid(id, "sb"))
		return -EBADMSG;
	made = vercel_session_new(box, id);
	made->requested_ms = s.requested_ms;
	made->started_ms = s.started_ms;
	made->stop_asked_ms = s.stop_asked_ms;
	made->stopped_ms = s.stopped_ms;
	made->snapshotted_ms = s.snapshotted_ms;
	made->timeout_ms = s.timeout_ms;
	made->vcpus = s.vcpus;
	made->memory_mib = s.memory_mib;
	made->cpu_ms = s.cpu_ms;
	made->in_bytes = s.in_bytes;
	made->out_bytes = s.out_bytes;
	made->is_over = s.is_over;
	made->is_aborted = s.is_aborted;
	(void)snprintf(made->source, sizeof(made->source), "%s", source);
	return 0;
}

static int read_vercel_sandbox(struct vercel_sandbox *box, const json_t *object)
{
	const char *project_id = "", *key_id = "", *space = "", *name = "", *snapshot = "";
	json_t *config = NULL, *sessions = NULL;
	const struct json_field fields[] = {
		{"project_id", JSON_FIELD_STRING, &project_id, true, .max = ID_SIZE - 1},
		{"key_id", JSON_FIELD_STRING, &key_id, true, .max = ID_SIZE - 1},
		{"space", JSON_FIELD_STRING, &space, true},
		{"name", JSON_FIELD_STRING, &name, true},
		{"snapshot", JSON_FIELD_STRING, &snapshot, true, .max = ID_SIZE - 1},
		{"created_ms", JSON_FIELD_U64, &box->created_ms, true},
		{"updated_ms", JSON_FIELD_U64, &box->updated_ms, true},
		{"status_ms", JSON_FIELD_U64, &box->status_ms, true},
		{"cpu_ms", JSON_FIELD_U64, &box->cpu_ms, true},
		{"in_bytes", JSON_FIELD_U64, &box->in_bytes, true},
		{"out_bytes", JSON_FIELD_U64, &box->out_bytes, true},
		{"duration_ms", JSON_FIELD_U64, &box->duration_ms, true},
		{"config", JSON_FIELD_OBJECT, &config, true},
		{"sessions", JSON_FIELD_ARRAY, &sessions, true},
	};
	int r = json_read(object, "", fields, ARRAY_SIZE(fields), NULL);

	if (r == 0)
		r = read_config(config, &box->config);
	for (size_t i = 0; r == 0 && i < json_array_size(sessions); i++)
		r = read_session(box, json_array_get(sessions, i));
	if (r < 0)
		return r;
	(void)snprintf(box->project_id, sizeof(box->project_id), "%s", project_id);
	(void)snprintf(box->key_id, sizeof(box->key_id), "%s", key_id);
	(void)snprintf(box->snapshot, sizeof(box->snapshot), "%s", snapshot);
	set_text(&box->space, space);
	set_text(&box->name, name);
	return 0;
}

static int load_vercel_sandbox(const struct face_row *row, void *arg)
{
	auto_json json_t *object = NULL;
	struct vercel_sandbox *box = vercel_sandbox_new(arg, "", "");

	(void)snprintf(box->id, sizeof(box->id), "%s", row->id);
	if (json_parse(row->json, strlen(row->json), &object, NULL) < 0 ||
	    read_vercel_sandbox(box, object) < 0) {
		log_error("vercel.unreadable", "id=%s", row->id);
		vercel_sandbox_free(box);
	}
	return 0;
}

int vercel_load(struct vercel *v, struct err *err)
{
	int r = store_each_face(v->api->store, KIND, load_vercel_sandbox, v, err);

	return r < 0 ? r : vercel_snapshots_load(v, err);
}
