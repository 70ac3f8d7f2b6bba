// SPDX-License-Identifier: Apache-2.0
/*
 * Sandboxes and their sessions as rows of the store. A policy with rules may have credentials in
 * them, so the row has it sealed: {"sealed": TEXT} (secret/sealed_text.h). If its key is lost, the
 * text stays in the row, and new sessions reach nothing until the policy is given again.
 */
#include "base/clock.h"
#include "base/json/row_fields.h"
#include "base/log.h"
#include "compat/vercel/vercel_sandbox.h"
#include "secret/secret.h"
#include "store/tables/faces.h"

#include <stdio.h>
#include <string.h>

#define KIND    "vercel.sandbox"
#define ROW_MAX (4 * 1024 * 1024)

#define SANDBOX(...) ROW_FIELD(vercel_sandbox, __VA_ARGS__)
#define CONFIG(...)  ROW_FIELD(vercel_sandbox_config, __VA_ARGS__)
#define SESSION(...) ROW_FIELD(vercel_session, __VA_ARGS__)
#define NEEDED       .is_required = true
/* clang-format off */
static const struct row_field sandbox_fields[] = {
	SANDBOX("project_id",  ROW_TEXT,   project_id, NEEDED, .max = ID_SIZE - 1),
	SANDBOX("key_id",      ROW_TEXT,   key_id, NEEDED, .max = ID_SIZE - 1),
	SANDBOX("space",       ROW_STRING, space, NEEDED),
	SANDBOX("name",        ROW_STRING, name, NEEDED),
	SANDBOX("snapshot",    ROW_TEXT,   snapshot, NEEDED, .max = ID_SIZE - 1),
	SANDBOX("created_ms",  ROW_U64,    created_ms, NEEDED),
	SANDBOX("updated_ms",  ROW_U64,    updated_ms, NEEDED),
	SANDBOX("status_ms",   ROW_U64,    status_ms, NEEDED),
	SANDBOX("cpu_ms",      ROW_U64,    cpu_ms, NEEDED),
	SANDBOX("in_bytes",    ROW_U64,    in_bytes, NEEDED),
	SANDBOX("out_bytes",   ROW_U64,    out_bytes, NEEDED),
	SANDBOX("duration_ms", ROW_U64,    duration_ms, NEEDED),
};

static const struct row_field config_fields[] = {
	CONFIG("persistent",           ROW_BOOL,   is_persistent, NEEDED),
	CONFIG("vcpus",                ROW_U64,    vcpus, NEEDED),
	CONFIG("memory_mib",           ROW_U64,    memory_mib, NEEDED),
	CONFIG("timeout_ms",           ROW_U64,    timeout_ms, NEEDED),
	CONFIG("snapshot_expires_ms",  ROW_U64,    snapshot_expires_ms, NEEDED),
	CONFIG("keep_last",            ROW_U64,    keep_last, NEEDED),
	CONFIG("keep_last_expires_ms", ROW_U64,    keep_last_expires_ms, NEEDED),
	CONFIG("has_keep_expiry",      ROW_BOOL,   has_keep_expiry, NEEDED),
	CONFIG("keeps_evicted",        ROW_BOOL,   keeps_evicted, NEEDED),
	CONFIG("runtime",              ROW_STRING, runtime),
	CONFIG("image",                ROW_STRING, image),
	CONFIG("region",               ROW_STRING, region),
	CONFIG("network_id",           ROW_STRING, network_id),
	CONFIG("env",                  ROW_OBJECT, env, NEEDED),
	CONFIG("tags",                 ROW_OBJECT, tags, NEEDED),
	CONFIG("mounts",               ROW_OBJECT, mounts), /* not in the first rows */
	CONFIG("ports",                ROW_ARRAY,  ports, NEEDED),
	CONFIG("failover_regions",     ROW_ARRAY,  failover_regions, NEEDED),
	CONFIG("policy",               ROW_OBJECT, policy, NEEDED),
};

static const struct row_field session_fields[] = {
	SESSION("id",             ROW_TEXT, id, NEEDED),
	SESSION("requested_ms",   ROW_U64,  requested_ms, NEEDED),
	SESSION("started_ms",     ROW_U64,  started_ms, NEEDED),
	SESSION("stop_asked_ms",  ROW_U64,  stop_asked_ms, NEEDED),
	SESSION("stopped_ms",     ROW_U64,  stopped_ms, NEEDED),
	SESSION("snapshotted_ms", ROW_U64,  snapshotted_ms, NEEDED),
	SESSION("timeout_ms",     ROW_U64,  timeout_ms, NEEDED),
	SESSION("vcpus",          ROW_U64,  vcpus, NEEDED),
	SESSION("memory_mib",     ROW_U64,  memory_mib, NEEDED),
	SESSION("cpu_ms",         ROW_U64,  cpu_ms, NEEDED),
	SESSION("in_bytes",       ROW_U64,  in_bytes, NEEDED),
	SESSION("out_bytes",      ROW_U64,  out_bytes, NEEDED),
	SESSION("source",         ROW_TEXT, source, NEEDED),
	SESSION("is_over",        ROW_BOOL, is_over, NEEDED),
	SESSION("is_aborted",     ROW_BOOL, is_aborted, NEEDED),
};
/* clang-format on */

uint64_t vercel_now_ms(void)
{
	return clock_wall_us() / 1000;
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
	free(c->locked);
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

struct vercel_sandbox *vercel_sandbox_by_id(const struct vercel *v, const char *id)
{
	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link)
		if (strcmp(box->id, id) == 0)
			return box;
	return NULL;
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
		log_error("vercel.not_saved", "id=%s error='%s'", box->id, err.message);
	vercel_name_give(box);
	vercel_sandbox_free(box);
}

#define LABEL_SIZE (2 * ID_SIZE + 32)

static void label_of(const struct vercel_sandbox *box, char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "vercel policy %s %s", box->project_id, box->id);
}

static const struct master_keys *keys_of(const struct vercel_sandbox *box)
{
	const struct secrets *secrets = box->vercel->api->secrets;

	return secrets ? secrets_keys(secrets) : NULL;
}

/* A mode alone has no credentials. */
static bool is_plain(const struct vercel_sandbox *box, const json_t *policy)
{
	return !keys_of(box) || (json_object_size(policy) == 1 && json_object_get(policy, "mode"));
}

/* As the row has it, a new reference; NULL: it cannot be sealed. */
static json_t *policy_of_row(const struct vercel_sandbox *box)
{
	auto_call(sealed_text_wipe) char *text = NULL;
	auto_free char *sealed = NULL;
	char label[LABEL_SIZE];

	if (box->config.locked)
		return json_pack("{s:s}", "sealed", box->config.locked);
	if (is_plain(box, box->config.policy))
		return json_incref(box->config.policy);
	label_of(box, label);
	text = json_dumps(box->config.policy, JSON_COMPACT);
	sealed = text ? sealed_text_make(keys_of(box), label, text, strlen(text)) : NULL;
	return sealed ? json_pack("{s:s}", "sealed", sealed) : NULL;
}

/* Returns whether the row is to be written anew. */
static bool open_policy(struct vercel_sandbox *box)
{
	struct vercel_sandbox_config *c = &box->config;
	const char *sealed = json_string_value(json_object_get(c->policy, "sealed"));
	auto_call(sealed_text_wipe) char *text = NULL;
	json_t *opened = NULL;
	bool is_stale = false;
	char label[LABEL_SIZE];

	if (!sealed && is_plain(box, c->policy))
		return false;
	if (!sealed) {
		store_wants_erasing(box->vercel->api->store);
		return true;
	}
	label_of(box, label);
	if (!keys_of(box) || sealed_text_open(keys_of(box), label, sealed, &text, &is_stale) < 0 ||
	    json_parse(text, strlen(text), &opened, NULL) < 0) {
		log_error("vercel.policy_locked",
		          "id=%s name='%s' message='the key that sealed its policy is not in the "
		          "key file' hint='put the file back and restart the daemon, or set the "
		          "policy again'",
		          box->id, box->name);
		c->locked = xstrdup(sealed);
		opened = json_pack("{s:s}", "mode", "deny-all");
	}
	json_decref(c->policy);
	c->policy = opened;
	return is_stale && !c->locked;
}

static int row_json(const struct vercel_sandbox *box, struct buf *out)
{
	struct vercel_sandbox_config config = box->config;
	auto_json json_t *policy = policy_of_row(box);
	struct json_writer w;

	if (!policy)
		return -ENOMEM;
	config.policy = policy;
	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	row_fields_put(sandbox_fields, ARRAY_SIZE(sandbox_fields), box, &w);
	json_open_object(&w, "config");
	row_fields_put(config_fields, ARRAY_SIZE(config_fields), &config, &w);
	json_close_object(&w);
	json_open_array(&w, "sessions");
	list_for_each (&box->sessions, const struct vercel_session, s, link) {
		json_open_object(&w, NULL);
		row_fields_put(session_fields, ARRAY_SIZE(session_fields), s, &w);
		json_close_object(&w);
	}
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
		log_error("vercel.not_saved", "id=%s error='%s'", box->id, err.message);
}

static int read_config(const json_t *object, struct vercel_sandbox_config *ret)
{
	struct vercel_sandbox_config c = {0};
	int r = row_fields_read(config_fields, ARRAY_SIZE(config_fields), NULL, 0, object, &c);

	if (r < 0)
		return r;
	if (!c.mounts)
		c.mounts = json_object();
	vercel_sandbox_config_done(ret);
	*ret = c;
	return 0;
}

static int read_session(struct vercel_sandbox *box, const json_t *object)
{
	const char *id = json_string_value(json_object_get(object, "id"));

	if (!id || !id_is_valid(id, "sb"))
		return -EBADMSG;
	return row_fields_read(session_fields, ARRAY_SIZE(session_fields), NULL, 0, object,
	                       vercel_session_new(box, id));
}

static int read_vercel_sandbox(struct vercel_sandbox *box, const json_t *object)
{
	json_t *config = NULL, *sessions = NULL;
	const struct json_field others[] = {
		{"config", JSON_FIELD_OBJECT, &config, true},
		{"sessions", JSON_FIELD_ARRAY, &sessions, true},
	};
	int r;

	free(take_ptr(box->space));
	free(take_ptr(box->name));
	r = row_fields_read(sandbox_fields, ARRAY_SIZE(sandbox_fields), others, ARRAY_SIZE(others),
	                    object, box);
	if (r == 0)
		r = read_config(config, &box->config);
	for (size_t i = 0; r == 0 && i < json_array_size(sessions); i++)
		r = read_session(box, json_array_get(sessions, i));
	return r;
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

static void open_policies(struct vercel *v)
{
	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link)
		if (open_policy(box))
			vercel_sandbox_note(box);
}

int vercel_load(struct vercel *v, struct err *err)
{
	int r = store_each_face(v->api->store, KIND, load_vercel_sandbox, v, err);

	if (r < 0)
		return r;
	open_policies(v);
	return vercel_snapshots_load(v, err);
}
