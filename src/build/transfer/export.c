// SPDX-License-Identifier: Apache-2.0
/*
 * The sandbox is deleted before the end is reported, and counts as a user of the image until then:
 * a template that is being exported cannot be removed.
 */
#include "build/transfer/export.h"

#include "base/units.h"
#include "build/build_private.h"
#include "oci/oci.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/storage/template.h"

#include <string.h>
#include <time.h>

#define SOURCE     "/template" /* where the image is shown */
#define SPOOL      "/layer.tar.zst"
#define CONFIG_MAX ((size_t)2 << 20)
#define LIFE_MS    (UINT64_C(2) * 60 * 60 * 1000) /* of its sandbox; slow lines count */

struct export
{
	struct list link;
	struct builds *owner;
	char project_id[ID_SIZE]; /* of who asked for it */
	char sandbox_id[ID_SIZE];
	const struct export_ops *ops;
	void *arg;
	char *config; /* for the agent */
	size_t len, sent;
	struct file_call *call;
	bool is_begun, is_left;
	struct err error;
};

void export_free(struct export *ex)
{
	if (ex->call)
		file_call_cancel(ex->call);
	list_remove(&ex->link);
	fair_room_give(&ex->owner->export_room, ex->project_id, 1);
	free(ex->config);
	free(ex);
}

void exports_close(struct builds *bs)
{
	list_for_each (&bs->exports, struct export, ex, link)
		export_free(ex);
}

static void finish(struct export *ex)
{
	if (!ex->is_left)
		ex->ops->on_end(ex->error.code == ERR_NONE ? NULL : &ex->error, ex->arg);
	export_free(ex);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	finish(arg);
}

static void end_export(struct export *ex, const struct err *err)
{
	struct sandbox *s = ex->sandbox_id[0] ? sandbox_find(ex->owner->config.fleet, BUILD_PROJECT,
	                                                     ex->sandbox_id)
	                                      : NULL;

	if (err)
		ex->error = *err;
	if (ex->call)
		file_call_cancel(take_ptr(ex->call));
	if (s)
		sandbox_delete(s, END_DELETED, on_deleted, ex);
	else
		finish(ex);
}

static void on_record(const struct record *r, void *arg)
{
	struct export *ex = arg;

	if (ex->is_begun || ex->is_left)
		return;
	ex->is_begun = true;
	ex->ops->on_begin(r->bytes, ex->arg);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct export *ex = arg;

	if (ex->is_begun && !ex->is_left)
		ex->ops->on_data(data, len, ex->arg);
}

static void on_packed(const struct err *err, void *arg)
{
	struct export *ex = arg;

	ex->call = NULL;
	end_export(ex, err);
}

static void tell_config(struct export *ex)
{
	while (ex->sent < ex->len) {
		ssize_t n = file_call_write(ex->call, ex->config + ex->sent, ex->len - ex->sent);

		if (n <= 0)
			return; /* on_room goes on */
		ex->sent += (size_t)n;
		if (ex->sent == ex->len)
			file_call_finish(ex->call);
	}
}

static void on_room(void *arg)
{
	tell_config(arg);
}

static const struct file_call_ops call_ops = {
	.on_data = on_data,
	.on_record = on_record,
	.on_room = on_room,
	.on_end = on_packed,
};

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct export *ex = arg;
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_ROOT_OUT,
	                         .user = unconst("root"),
	                         .path = unconst(SOURCE),
	                         .path2 = unconst(SPOOL)};
	struct err why = {0};

	if (!err) {
		(void)snprintf(ex->sandbox_id, sizeof(ex->sandbox_id), "%s", sandbox_id(s));
		if (ex->is_left)
			(void)err_set(&why, ERR_GONE, 0, "the client is gone");
		else if (file_call_start(s, &op, &call_ops, ex, &ex->call, &why) == 0) {
			tell_config(ex);
			return;
		}
		err = &why;
	}
	end_export(ex, err);
}

/* {"A": "b"} as ["A=b"]. */
static json_t *env_words(const json_t *env)
{
	json_t *words = json_array(), *value;
	const char *name;

	json_object_foreach ((json_t *)unconst(env), name, value)
		(void)json_array_append_new(words,
		                            json_sprintf("%s=%s", name, json_string_value(value)));
	return words;
}

static void take_field(json_t *config, const char *to, const json_t *manifest, const char *from)
{
	json_t *value = json_object_get(manifest, from);

	if (value)
		(void)json_object_set(config, to, value);
}

/* A list of names as an object, as images have ports and volumes. */
static void take_names(json_t *inner, const char *to, const json_t *config, const char *from)
{
	const json_t *names = json_object_get(config, from), *name;
	json_t *object;
	size_t i;

	if (json_array_size(names) == 0)
		return;
	object = json_object();
	json_array_foreach(names, i, name)
	{
		(void)json_object_set_new(object, json_string_value(name), json_object());
	}
	(void)json_object_set_new(inner, to, object);
}

/* What other engines understand of what a Dockerfile has said. */
static void take_facts(json_t *inner, const json_t *config)
{
	const json_t *labels = json_object_get(config, "labels");

	(void)json_object_set_new(inner, "Labels", labels ? json_deep_copy(labels) : json_object());
	take_names(inner, "ExposedPorts", config, "exposed_ports");
	take_names(inner, "Volumes", config, "volumes");
	take_field(inner, "StopSignal", config, "stop_signal");
	take_field(inner, "Shell", config, "shell");
	take_field(inner, "OnBuild", config, "onbuild");
}

/* The config that other container engines read, with our manifest as a label. */
static json_t *make_config(const struct template *t)
{
	const json_t *manifest = template_manifest(t);
	json_t *inner = json_object();
	time_t created_s = (time_t)(template_created_us(t) / 1000000);
	char created[32];
	struct tm tm;
	char *label = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);

	(void)strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created_s, &tm));
	if (json_object_size(json_object_get(manifest, "env")) > 0)
		(void)json_object_set_new(inner, "Env",
		                          env_words(json_object_get(manifest, "env")));
	take_field(inner, "User", manifest, "user");
	take_field(inner, "WorkingDir", manifest, "cwd");
	take_field(inner, "Entrypoint", manifest, "entrypoint");
	take_field(inner, "Cmd", manifest, "cmd");
	take_facts(inner, json_object_get(manifest, "config"));
	(void)json_object_set_new(json_object_get(inner, "Labels"), OCI_LABEL, json_string(label));
	free(label);
	return json_pack("{sss{ssso}}", "name", template_name(t), "config", "created", created,
	                 "config", inner);
}

static int create_sandbox(struct export *ex, const struct template *t, struct err *err)
{
	const struct fleet_config *c = fleet_config(ex->owner->config.fleet);
	const struct sandbox_spec spec = {
		.image = template_image(t),
		.is_shown = true,
		.is_own = true,
		.limits = {.memory_bytes = MIN(1024 * MIB, c->max_limits.memory_bytes),
	                   .disk_bytes = MIN(16384 * MIB, c->max_limits.disk_bytes)},
		.timeout_ms = MIN(LIFE_MS, c->max_timeout_ms),
	};

	return sandbox_create(ex->owner->config.fleet, BUILD_PROJECT, &spec, on_created, ex, err);
}

int export_start(struct builds *bs, const char *project_id, const struct template *t,
                 const struct export_ops *ops, void *arg, struct export **ret, struct err *err)
{
	auto_json json_t *config = make_config(t);
	struct export *ex;
	int r;

	if (!fair_room_take(&bs->export_room, project_id, 1))
		return err_set(err, ERR_LIMIT, 0, "%zu exports are under way, which is the limit",
		               bs->export_room.used);
	ex = xnew0(struct export);
	*ex = (struct export){.owner = bs, .ops = ops, .arg = arg};
	(void)snprintf(ex->project_id, sizeof(ex->project_id), "%s", project_id);
	list_append(&bs->exports, &ex->link);
	ex->config = json_dumps(config, JSON_COMPACT);
	ex->len = ex->config ? strlen(ex->config) : 0;
	r = ex->len > 0 && ex->len <= CONFIG_MAX
	            ? create_sandbox(ex, t, err)
	            : err_set(err, ERR_INTERNAL, 0, "its manifest is too large");
	if (r < 0) {
		export_free(ex);
		return r;
	}
	*ret = ex;
	return 0;
}

void export_pause(struct export *ex, bool on)
{
	if (ex->call)
		file_call_pause(ex->call, on);
}

void export_leave(struct export *ex)
{
	ex->is_left = true;
	if (ex->call)
		end_export(ex, NULL);
}
