// SPDX-License-Identifier: Apache-2.0
/*
 * Forks. The reply tells of each fork by its number: which were made, and why the others were not.
 * If none was made, the reply is the error of the first.
 */
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/snapshot/snapshot.h"

#include <string.h>

struct forking {
	struct late_reply late;
	struct fleet *fleet;
	char project_id[ID_SIZE];
	uint32_t count, n_made;
	struct {
		char id[ID_SIZE]; /* "" = see err */
		struct err err;
	} at[];
};

static void on_one(uint32_t i, struct sandbox *s, const struct err *err, void *arg)
{
	struct forking *f = arg;

	if (s) {
		memcpy(f->at[i].id, sandbox_id(s), sizeof(f->at[i].id));
		f->n_made++;
	} else {
		f->at[i].err = *err;
	}
}

static void put_made(const struct forking *f, struct json_writer *w)
{
	json_open_array(w, "sandboxes");
	for (uint32_t i = 0; i < f->count; i++) {
		struct sandbox *s =
			f->at[i].id[0] ? sandbox_find(f->fleet, f->project_id, f->at[i].id) : NULL;

		if (s)
			sandbox_to_json(s, w, NULL);
	}
	json_close_array(w);
}

static void put_failed(const struct forking *f, struct json_writer *w)
{
	json_open_array(w, "failed");
	for (uint32_t i = 0; i < f->count; i++) {
		const struct err *e = &f->at[i].err;

		if (f->at[i].id[0])
			continue;
		json_open_object(w, NULL);
		json_put_u64(w, "index", i);
		json_put_str(w, "code", err_code_name(e->code));
		json_put_str(w, "message", e->message);
		json_put_str(w, "hint", e->hint[0] ? e->hint : NULL);
		json_close_object(w);
	}
	json_close_array(w);
}

static void on_end(struct snapshot *sn, const struct fork_memory *memory, const struct err *err,
                   void *arg)
{
	struct forking *f = arg;
	struct http_req *req = f->late.req;
	struct json_writer *w;
	struct reply reply;

	if (!err && f->n_made == 0)
		err = &f->at[0].err;
	if (req && !err) {
		w = reply_begin(&reply);
		json_put_str(w, "snapshot_id", sn ? snapshot_id(sn) : NULL);
		json_put_str(w, "memory_by", memory->by);
		json_put_str(w, "memory_why", memory->why);
		put_made(f, w);
		put_failed(f, w);
		reply_send_late(&reply, req, 201);
	}
	(void)late_reply_take(f, err);
}

static int read_fork(const json_t *body, struct fork_spec *ret, struct err *err)
{
	const char *on_connection = NULL;
	uint64_t count = 1;
	/* clang-format off */
	const struct json_field fields[] = {
		{"count",           JSON_FIELD_U64,    &count, .min = 1, .max = FORK_MAX},
		{"memory",          JSON_FIELD_BOOL,   &ret->has_memory},
		{"on_connection",   JSON_FIELD_STRING, &on_connection},
		{"name",            JSON_FIELD_STRING, &ret->sandbox.name, .min = 1, .max = SANDBOX_NAME_MAX},
		{"group",           JSON_FIELD_STRING, &ret->sandbox.group, .min = 1, .max = SANDBOX_NAME_MAX},
		{"alias",           JSON_FIELD_STRING, &ret->sandbox.alias, .min = 1, .max = SANDBOX_NAME_MAX},
		{"tags",            JSON_FIELD_OBJECT, &ret->sandbox.tags},
		{"env",             JSON_FIELD_OBJECT, &ret->sandbox.env},
		{"network",         JSON_FIELD_ANY,    &ret->sandbox.network},
		{"timeout_ms",      JSON_FIELD_U64,    &ret->sandbox.timeout_ms, .min = 1, .max = TIMEOUT_MS_MAX},
		{"idle_timeout_ms", JSON_FIELD_U64,    &ret->sandbox.idle_timeout_ms, .max = TIMEOUT_MS_MAX},
		{"on_timeout",      JSON_FIELD_STRING, &ret->sandbox.on_timeout},
		{"on_idle",         JSON_FIELD_STRING, &ret->sandbox.on_idle},
		{"persistent",      JSON_FIELD_BOOL,   &ret->sandbox.is_persistent},
		{"results",         JSON_FIELD_ARRAY,  &ret->sandbox.results, .max = RESULTS_MAX},
	};
	/* clang-format on */
	int r;

	*ret = (struct fork_spec){.has_memory = true, .sandbox = {.engine = "auto"}};
	r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err) : 0;
	if (r == 0 && ret->sandbox.env)
		r = body_check_env(ret->sandbox.env, "env", err);
	if (r == 0)
		r = results_check(ret->sandbox.results, ret->sandbox.is_persistent, err);
	ret->count = (uint32_t)count;
	return r < 0 ? r : body_read_on_connection(on_connection, &ret->closes_connections, err);
}

int fork_sandbox(struct http_req *req, struct err *err)
{
	static const struct fork_ops ops = {on_one, on_end};
	const struct api *api = http_app_arg(req);
	struct fork_spec spec;
	struct forking *f;
	struct sandbox *s;
	int r = read_fork(http_json(req), &spec, err);

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r != 0)
		return r;
	spec.sandbox.key_id = key_id(http_user(req));
	f = late_reply_new(req, sizeof(*f) + spec.count * sizeof(f->at[0]));
	f->fleet = api->fleet;
	f->count = spec.count;
	memcpy(f->project_id, sandbox_project_id(s), sizeof(f->project_id));
	r = sandbox_fork(s, &spec, &ops, f, err);
	return r < 0 ? late_reply_drop(f, r) : r;
}
