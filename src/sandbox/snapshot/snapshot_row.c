// SPDX-License-Identifier: Apache-2.0
/*
 * A snapshot as a row of the store and as JSON for clients. The row holds the values of its
 * source's environment, as the sandbox's row does; clients see only the names.
 */
#include "base/json/row_fields.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/limits_json.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "store/tables/snapshots.h"

#define ROW_MAX (16 * 1024 * 1024) /* with memory: of all its execs and contexts */

#define FIELD(...) ROW_FIELD(snapshot, __VA_ARGS__)
#define NEEDED     .is_required = true
/* clang-format off */
static const struct row_field fields[] = {
	FIELD("key_id",        ROW_TEXT,   key_id, NEEDED),
	FIELD("origin_id",     ROW_TEXT,   origin_id, NEEDED),
	FIELD("template",      ROW_STRING, template, NEEDED),
	FIELD("user",          ROW_STRING, user),
	FIELD("cwd",           ROW_STRING, cwd),
	FIELD("env",           ROW_OBJECT, env, NEEDED),
	FIELD("carried",       ROW_OBJECT, carried),
	FIELD("line",          ROW_U64,    line),
	FIELD("bytes",         ROW_U64,    bytes, NEEDED),
	FIELD("written_bytes", ROW_U64,    written_bytes, NEEDED),
	FIELD("memory_bytes",  ROW_U64,    memory_bytes, NEEDED),
	FIELD("is_unshared",   ROW_BOOL,   is_unshared, NEEDED),
	FIELD("is_automatic",  ROW_BOOL,   is_automatic, NEEDED),
	FIELD("is_generation", ROW_BOOL,   is_generation),
	FIELD("has_trust",     ROW_BOOL,   has_trust),
	FIELD("is_durable",    ROW_BOOL,   is_durable),
	FIELD("is_fetched",    ROW_BOOL,   is_fetched),
	FIELD("is_wanted",     ROW_BOOL,   is_wanted),
	FIELD("is_removed",    ROW_BOOL,   is_removed),
	FIELD("is_sending",    ROW_BOOL,   is_sending),
	FIELD("companion",     ROW_OBJECT, companion),
};
/* clang-format on */

static int write_row(const struct snapshot *sn, struct buf *out)
{
	struct json_writer w;
	char hex[DIGEST_HEX];

	digest_to_hex(&sn->image, hex);
	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	row_fields_put(fields, ARRAY_SIZE(fields), sn, &w);
	json_put_str(&w, "image", hex);
	json_put_str(&w, "engine", engine_name(sn->engine));
	limits_to_row(&sn->limits, &w);
	json_close_object(&w);
	return json_writer_end(&w);
}

json_t *snapshot_row_json(const struct snapshot *sn)
{
	auto_call(buf_done) struct buf text = BUF_INIT(ROW_MAX);
	json_t *row = NULL;
	struct err err;

	if (write_row(sn, &text) < 0 || json_parse(text.data, text.len, &row, &err) < 0)
		return NULL;
	return row;
}

int snapshot_save(const struct snapshot *sn, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct snapshot_row row = {.id = sn->id,
	                           .project_id = sn->project_id,
	                           .name = sn->name,
	                           .source_id = sn->source_id,
	                           .parent_id = sn->parent_id,
	                           .generation = sn->generation,
	                           .created_us = sn->created_us,
	                           .expires_us = sn->expires_us};
	int r = write_row(sn, &json);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot record snapshot %s", sn->id);
	row.json = buf_str(&json);
	return store_put_snapshot(sn->fleet->config.store, &row, err);
}

static int read_row(struct snapshot *sn, const json_t *object)
{
	const char *image = NULL, *engine = engine_name(ENGINE_BASE);
	json_t *limits = NULL;
	const struct json_field others[] = {
		{"image", JSON_FIELD_STRING, &image, true},
		{"engine", JSON_FIELD_STRING, &engine},
		{"limits", JSON_FIELD_OBJECT, &limits, true},
	};
	int r = row_fields_read(fields, ARRAY_SIZE(fields), others, ARRAY_SIZE(others), object, sn);

	if (r == 0)
		r = limits_read_row(limits, &sn->limits);
	if (r == 0)
		r = digest_parse(image, &sn->image);
	if (r == 0 && !engine_find_name(engine))
		r = -ENOSYS;
	if (r == 0)
		sn->engine = engine_find_name(engine)->number;
	return r;
}

int snapshot_load(struct fleet *fleet, const struct snapshot_row *row, struct snapshot **ret)
{
	auto_json json_t *object = NULL;
	struct snapshot *sn;
	struct err err;

	if (!id_is_valid(row->id, "sn") ||
	    json_parse(row->json, strlen(row->json), &object, &err) < 0)
		return -EBADMSG;
	sn = snapshot_alloc(fleet);
	(void)snprintf(sn->id, sizeof(sn->id), "%s", row->id);
	(void)snprintf(sn->project_id, sizeof(sn->project_id), "%s", row->project_id);
	(void)snprintf(sn->source_id, sizeof(sn->source_id), "%s", row->source_id);
	(void)snprintf(sn->parent_id, sizeof(sn->parent_id), "%s", row->parent_id);
	sn->name = xstrdup(row->name);
	sn->generation = row->generation;
	sn->created_us = row->created_us;
	sn->expires_us = row->expires_us;
	if (read_row(sn, object) < 0) {
		snapshot_free(sn);
		return -EBADMSG;
	}
	*ret = sn;
	return 0;
}

static void put_or_null(struct json_writer *w, const char *name, const char *text)
{
	json_put_str(w, name, text[0] ? text : NULL);
}

static void put_env_names(struct json_writer *w, const json_t *env)
{
	const char *name;
	json_t *value;

	json_open_array(w, "env_names");
	json_object_foreach ((json_t *)unconst(env), name, value) {
		json_put_str(w, NULL, name);
	}
	json_close_array(w);
}

void snapshot_to_json(const struct snapshot *sn, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "id", sn->id);
	put_or_null(w, "name", sn->name);
	json_put_str(w, "state", sn->is_there ? "ready" : "damaged");
	json_put_str(w, "sandbox_id", sn->source_id);
	put_or_null(w, "parent_id", sn->parent_id);
	json_put_u64(w, "generation", sn->generation);
	json_put_bool(w, "memory", sn->memory_bytes > 0);
	json_put_u64(w, "bytes", sn->bytes);
	json_put_u64(w, "own_bytes", sn->own_bytes);
	json_put_u64(w, "memory_bytes", sn->memory_bytes);
	json_put_str(w, "template", sn->template);
	json_put_str(w, "engine", engine_name(sn->engine));
	json_put_u64(w, "disk_mib", sn->limits.disk_bytes / MIB);
	put_env_names(w, sn->env);
	json_put_bool(w, "automatic", sn->is_automatic);
	snapshot_cluster_to_json(sn, w);
	json_put_u64(w, "created_us", sn->created_us);
	if (sn->expires_us)
		json_put_u64(w, "expires_us", sn->expires_us);
	else
		json_put_null(w, "expires_us");
	json_close_object(w);
}

bool snapshot_has_memory(const struct snapshot *sn)
{
	return sn->memory_bytes > 0;
}

json_t *snapshot_describe_bundle(const struct snapshot *sn)
{
	char hex[DIGEST_HEX];
	json_t *text;

	digest_to_hex(&sn->image, hex);
	text = json_pack("{sisssosI}", "format", 1, "template", sn->template, "image",
	                 digest_is_zero(&sn->image) ? json_null() : json_string(hex), "disk_mib",
	                 (json_int_t)(sn->limits.disk_bytes >> 20));
	if (sn->engine != ENGINE_BASE)
		(void)json_object_set_new(text, "engine", json_string(engine_name(sn->engine)));
	return text;
}
