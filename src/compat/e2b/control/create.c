// SPDX-License-Identifier: Apache-2.0
/*
 * Creates, of both versions of the API. In the first, clients use no token, and a sandbox lives for
 * fifteen seconds by default.
 */
#include "compat/e2b/control/network.h"
#include "compat/e2b/control/pending_reply.h"
#include "compat/e2b/control/startup.h"
#include "compat/e2b/control/templates.h"
#include "compat/e2b/control/workload_token.h"
#include "compat/e2b/frame/body.h"

#include "api/frame/find.h"
#include "api/sandboxes/create_wait.h"
#include "api/templates/template_fetch.h"

#include <string.h>

#define SECONDS_V1  15
#define SECONDS_V2  300
#define SECONDS_MAX (INT64_C(365) * 24 * 3600)

struct wish { /* strings and values are borrowed from the body, but for the last four */
	struct sandbox_spec spec;
	const char *template;
	const json_t *metadata, *network;
	bool is_secure, is_public;
	bool pauses, pauses_memory, resumes;
	bool has_internet;
	const json_t *internet;
	const char *mask_host;
	int64_t seconds;
	struct template_choice choice;
	json_t *policy, *notes, *volumes, *tokens;
};

static void wish_done(struct wish *w)
{
	json_decref(w->policy);
	json_decref(w->notes);
	json_decref(w->volumes);
	json_decref(w->tokens);
}

static int read_network(const json_t *body, struct wish *w, struct err *err)
{
	int r = body_object(body, "network", &w->network, err);

	w->internet = body_get(body, "allow_internet_access");
	w->has_internet = w->is_public = true;
	if (r == 0)
		r = body_bool(body, "allow_internet_access", &w->has_internet, err);
	if (r == 0)
		r = body_bool(w->network, "allowPublicTraffic", &w->is_public, err);
	if (r == 0)
		r = body_text(w->network, "maskRequestHost", &w->mask_host, err);
	if (r == 0)
		r = workload_token_read(body, &w->tokens, err);
	if (r == 0)
		r = e2b_policy(&(struct e2b_network){w->network, w->has_internet, w->tokens},
		               &w->policy, err);
	if (r == 0 && !w->is_public && !w->is_secure)
		r = err_field(err, "network.allowPublicTraffic",
		              "an unsecured sandbox cannot close its ports");
	return r;
}

static int read_life(const json_t *body, struct wish *w, struct err *err)
{
	const json_t *resume = NULL;
	int r = body_int(body, "timeout", &w->seconds, NULL, err);

	w->pauses_memory = true;
	if (r == 0 && w->seconds <= 0)
		r = err_set(err, ERR_INVALID_FIELD, 0, "Timeout must be greater than 0");
	if (r == 0 && w->seconds > SECONDS_MAX)
		r = err_set(err, ERR_INVALID_FIELD, 0, "Timeout is more than a year");
	if (r == 0)
		r = body_bool(body, "autoPause", &w->pauses, err);
	if (r == 0)
		r = body_bool(body, "autoPauseMemory", &w->pauses_memory, err);
	if (r == 0)
		r = body_object(body, "autoResume", &resume, err);
	if (r == 0)
		r = body_bool(resume, "enabled", &w->resumes, err);
	if (r == 0 && !w->pauses_memory && !w->pauses)
		r = err_field(err, "autoPauseMemory", "needs autoPause");
	if (r == 0 && !w->pauses_memory && w->resumes)
		r = err_field(err, "autoPauseMemory", "excludes autoResume");
	return r;
}

/* [{name, path}]; errors in it are reported by the code for volumes. */
static int read_volumes(const json_t *body, struct wish *w, struct err *err)
{
	const json_t *mounts = NULL, *mount;
	size_t i;
	int r = body_array(body, "volumeMounts", &mounts, err);

	w->volumes = json_array();
	json_array_foreach(mounts, i, mount)
	{
		const char *name = "", *path = "";

		if (r == 0)
			r = body_text(mount, "name", &name, err);
		if (r == 0)
			r = body_text(mount, "path", &path, err);
		(void)json_array_append_new(w->volumes,
		                            json_pack("{s:s, s:s}", "volume", name, "path", path));
	}
	return r;
}

static void put_text(json_t *notes, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(notes, name, json_string(text));
}

static void make_notes(const struct http_req *req, struct wish *w)
{
	char token[KEY_TOKEN_SIZE], traffic[KEY_TOKEN_SIZE];
	json_t *n = json_object();

	key_token_make(token);
	key_token_make(traffic);
	put_text(n, "token", w->is_secure ? token : NULL);
	put_text(n, "traffic", w->is_public ? NULL : traffic);
	(void)json_object_set_new(n, "clients",
	                          notes_client(http_user(req), http_peer_network(req)));
	put_text(n, "template", w->template);
	put_text(n, "mask_host", w->mask_host);
	if (!w->pauses_memory)
		(void)json_object_set_new(n, "always_cold", json_true());
	if (w->metadata)
		(void)json_object_set(n, "metadata", (json_t *)unconst(w->metadata));
	if (w->network)
		(void)json_object_set_new(n, "network", e2b_policy_told(w->network));
	if (w->tokens)
		(void)json_object_set(n, "workload_tokens", w->tokens);
	if (w->internet)
		(void)json_object_set(n, "internet", (json_t *)unconst(w->internet));
	(void)json_object_set_new(n, "timeout_ms", json_integer(w->seconds * 1000));
	w->notes = json_pack("{s:o}", "e2b", n);
}

static int read_body(const struct http_req *req, struct wish *w, struct err *err)
{
	const json_t *body = http_json(req);
	int r = body_text(body, "templateID", &w->template, err);

	if (r == 0 && !w->template)
		r = err_field(err, "templateID", "is required");
	if (r == 0)
		r = body_strings(body, "metadata", &w->metadata, err);
	if (r == 0)
		r = body_strings(body, "envVars", &w->spec.env, err);
	if (r == 0)
		r = read_life(body, w, err);
	if (r == 0)
		r = read_network(body, w, err);
	if (r == 0)
		r = read_volumes(body, w, err);
	if (r == 0)
		r = template_choose(req, w->template, &w->choice, err);
	return r;
}

/* The template may have a start command. It is looked up again, since it may have changed. */
static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct pending_reply *l = arg;
	struct sandbox_facts facts;
	const json_t *notes = NULL;

	if (s && l->late.req && l->is_started) {
		sandbox_facts(s, &facts);
		notes = startup_notes(l->late.req, facts.template);
	}
	if (notes)
		startup_run(s, notes, l);
	else
		pending_reply_send(s, err, l);
}

/* 1: the template is on another node, and on its way. */
static int await_elsewhere(struct http_req *req, struct err *err)
{
	const char *wanted = json_string_value(json_object_get(http_json(req), "templateID"));
	char word[TEMPLATE_WORD_SIZE];

	if (!wanted)
		return 0;
	template_read_name(wanted, word);
	return id_is_valid(word, "sn") ? await_snapshot(req, word, err)
	                               : await_template(req, word, err);
}

static int create(struct http_req *req, struct wish *w, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const json_t *notes;
	struct pending_reply *l;
	int r = await_elsewhere(req, err);

	if (r != 0)
		return r;
	r = read_body(req, w, err);
	if (r == 0 && w->tokens && !fleet_config(api->fleet)->identity) {
		(void)err_field(err, "iam", "names tokens, but this daemon gives out none");
		r = err_hint(err, "set `identity.issuer` to the https URL under which clouds find "
		                  "this daemon, and restart it");
	}
	if (r < 0)
		return r;
	make_notes(req, w);
	notes = startup_notes(req, w->choice.template);
	startup_limits(req, notes, &w->spec.limits);
	w->spec.key_id = key_id(http_user(req));
	w->spec.template = w->choice.template;
	w->spec.snapshot = w->choice.snapshot;
	w->spec.network = w->policy;
	w->spec.notes = w->notes;
	w->spec.volumes = w->volumes;
	w->spec.timeout_ms = (uint64_t)w->seconds * 1000;
	w->spec.on_timeout = w->pauses ? "pause" : "delete";
	w->spec.auto_resumes = w->resumes;
	l = pending_reply_new(req, 201, pending_reply_sandbox);
	l->is_undone = true;
	l->is_started = notes != NULL;
	r = sandbox_create(api->fleet, caller_project(req), &w->spec, on_created, l, err);
	return r < 0 ? late_reply_drop(l, r) : r;
}

static int create_now_v1(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	auto_call(wish_done) struct wish w = {.seconds = SECONDS_V1};
	int r = create_wait_foreign(req, &w.spec.wait_ms, err);

	*ret_wait_ms = w.spec.wait_ms;
	if (r == 0)
		r = body_bool(http_json(req), "secure", &w.is_secure, err);
	return r < 0 ? r : create(req, &w, err);
}

/* In a cluster another node may make it. */
static int create_somewhere(struct http_req *req, create_fn create_here, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = api->place ? api->place(req, /* refused= */ NULL, err) : 0;

	return r != 0 ? r : create_or_wait(req, create_here, err);
}

int e2b_create_sandbox_v1(struct http_req *req, struct err *err)
{
	return create_somewhere(req, create_now_v1, err);
}

static int create_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	auto_call(wish_done) struct wish w = {.seconds = SECONDS_V2, .is_secure = true};
	int r = create_wait_foreign(req, &w.spec.wait_ms, err);

	*ret_wait_ms = w.spec.wait_ms;
	return r < 0 ? r : create(req, &w, err);
}

int e2b_create_sandbox(struct http_req *req, struct err *err)
{
	return create_somewhere(req, create_now, err);
}
