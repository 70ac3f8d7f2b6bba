// SPDX-License-Identifier: Apache-2.0
/*
 * Creates a session: a native sandbox is made with the settings, from the current snapshot or, the
 * first time, from a template, and is then set up. It is recorded as the session of its
 * vercel_sandbox only when it is ready. If the daemon dies before that, the next one finds the
 * native sandbox by its note and deletes it.
 */
#include "compat/vercel/policy.h"
#include "compat/vercel/vercel_sandbox.h"
#include "compat/vercel/wire.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define PATH_DEFAULT "/vercel/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define USER_DEFAULT "user"

static void on_set_up(const struct err *err, void *arg)
{
	struct vercel_session *s = session_call_end(arg);
	struct sandbox *native = s ? vercel_session_sandbox(s) : NULL;
	struct err gone;
	struct vercel_sandbox *box;

	if (!s)
		return;
	if (!err && native) {
		vercel_session_created(s, native);
		return;
	}
	box = s->sandbox;
	if (!err)
		(void)err_set(&gone, ERR_GUEST, 0, "the sandbox ended while it was being made");
	if (native)
		sandbox_delete(native, END_DELETED, NULL, NULL);
	vercel_session_free(s);
	vercel_session_failed(box, err ? err : &gone);
}

static const struct template *template_of(const struct vercel_sandbox *box)
{
	const struct template *t = NULL;
	struct err ignored; /* it was found when the sandbox was asked for */

	(void)!find_base(box->vercel->api, box->project_id, box->config.image, box->config.runtime,
	                 &t, &ignored);
	return t;
}

const char *vercel_user_of(const struct sandbox *native)
{
	return sandbox_user(native)[0] ? sandbox_user(native) : USER_DEFAULT;
}

/* Of the template's programs. */
static const char *owner_of(const struct vercel_sandbox *box)
{
	const struct template *t = template_of(box);
	const char *user =
		t ? json_string_value(json_object_get(template_manifest(t), "user")) : NULL;

	return user && user[0] ? user : USER_DEFAULT;
}

/* What the owner is called with Vercel: in its images, and in the older runtimes. One's own image
 * has a user of its own. */
static const struct vercel_user *user_name(const struct vercel_sandbox *box)
{
	static const struct vercel_user of_image = {"ubuntu", "/vercel"},
					of_runtime = {"vercel-sandbox", "/home/vercel-sandbox"};

	if (strcmp(owner_of(box), USER_DEFAULT) != 0)
		return NULL;
	return box->config.runtime ? &of_runtime : &of_image;
}

/* A sandbox that is being created has no session yet, so this is found by the sandbox's id. */
struct session_creation {
	struct vercel *vercel;
	char box_id[ID_SIZE], source[ID_SIZE];
	uint64_t requested_ms;
	char repository[256]; /* of a git source: the directory that it becomes, or "" */
	bool has_source;
};

static void on_created(struct sandbox *native, const struct err *err, void *arg)
{
	auto_free struct session_creation *creation = arg;
	struct vercel_sandbox *box = vercel_sandbox_by_id(creation->vercel, creation->box_id);
	struct vercel_session *s;

	if (!box) {
		if (native)
			sandbox_delete(native, END_DELETED, NULL, NULL);
		return;
	}
	if (err) {
		vercel_session_failed(box, err);
		return;
	}
	s = vercel_session_new(box, sandbox_id(native));
	s->requested_ms = creation->requested_ms;
	s->timeout_ms = box->config.timeout_ms;
	s->vcpus = box->config.vcpus;
	s->memory_mib = box->config.memory_mib;
	memcpy(s->source, creation->source, sizeof(s->source));
	if (s->source[0])
		vercel_session_created(s, native);
	else
		session_setup(native, owner_of(box), user_name(box),
		              creation->has_source ? creation->repository : NULL, on_set_up,
		              session_call_new(s));
}

static json_t *make_env(const struct vercel_sandbox *box)
{
	const struct template *t = template_of(box);
	json_t *env = json_deep_copy(box->config.env);
	const json_t *own = t ? json_object_get(template_manifest(t), "env") : NULL;

	if (!json_object_get(env, "PATH") && !json_object_get(own, "PATH"))
		(void)json_object_set_new(env, "PATH", json_string(PATH_DEFAULT));
	return env;
}

/* The requested limits, as far as this host allows. */
static struct guest_limits make_limits(const struct vercel_sandbox *box)
{
	const struct guest_limits *most = &fleet_config(box->vercel->api->fleet)->max_limits;
	struct guest_limits limits = {.memory_bytes = box->config.memory_mib << 20,
	                              .cpu_milli = (uint32_t)box->config.vcpus * 1000};

	if (most->memory_bytes)
		limits.memory_bytes = MIN(limits.memory_bytes, most->memory_bytes);
	if (most->cpu_milli)
		limits.cpu_milli = MIN(limits.cpu_milli, most->cpu_milli);
	return limits;
}

static json_t *make_volumes(const struct vercel_sandbox *box)
{
	json_t *volumes = json_array(), *mount;
	const char *path;

	json_object_foreach (box->config.mounts, path, mount) {
		const char *mode = json_string_value(json_object_get(mount, "mode"));

		(void)json_array_append_new(volumes,
		                            json_pack("{s:s, s:O, s:b}", "path", path, "volume",
		                                      json_object_get(mount, "drive"), "read_only",
		                                      mode && strcmp(mode, "snapshot") == 0));
	}
	return volumes;
}

static int ask_for_sandbox(struct vercel_sandbox *box, struct session_creation *creation,
                           struct err *err)
{
	auto_json json_t *env = make_env(box), *policy = NULL, *volumes = make_volumes(box);
	auto_json json_t *notes = json_pack("{s:s}", VERCEL_NOTE, box->id);
	auto_json json_t *tags = json_pack("{s:s}", "vercel/name", box->name);
	const struct template *t = NULL;
	int r = creation->source[0] ? 0
	                            : find_base(box->vercel->api, box->project_id,
	                                        box->config.image, box->config.runtime, &t, err);
	struct sandbox_spec spec = {.key_id = box->key_id[0] ? box->key_id : NULL,
	                            .template = t ? template_id(t) : NULL,
	                            .env = env,
	                            .tags = tags,
	                            .notes = notes,
	                            .volumes = volumes,
	                            .source = box->source,
	                            .limits = make_limits(box),
	                            .wait_ms = box->wait_ms,
	                            .timeout_ms = box->config.timeout_ms,
	                            .on_timeout = "stop",
	                            .is_persistent = box->config.is_persistent};

	if (r == 0)
		r = policy_to_native(box->config.policy, &policy, err);
	if (r < 0)
		return r;
	spec.network = policy;
	if (creation->source[0]) {
		spec.snapshot = creation->source;
		spec.template = NULL;
		spec.source = NULL;
	}
	creation->has_source = spec.source != NULL;
	return sandbox_create(box->vercel->api->fleet, box->project_id, &spec, on_created, creation,
	                      err);
}

/* "https://host/owner/name.git" becomes "name". */
static void name_repository(const json_t *source, const struct vercel_sandbox_config *c, char *ret,
                            size_t size)
{
	const char *type = json_string_value(json_object_get(source, "type"));
	const char *url = json_string_value(json_object_get(source, "url"));
	const char *slash = url ? strrchr(url, '/') : NULL;
	size_t len = slash ? strcspn(slash + 1, "?#") : 0;

	ret[0] = '\0';
	if (c->runtime || !type || strcmp(type, "git") != 0)
		return; /* then it is all of the directory */
	if (len > 4 && strncmp(slash + 1 + len - 4, ".git", 4) == 0)
		len -= 4;
	if (len == 0 || len >= size)
		return;
	(void)snprintf(ret, size, "%.*s", (int)len, slash + 1);
	if (strcmp(ret, ".") == 0 || strcmp(ret, "..") == 0)
		ret[0] = '\0';
}

int vercel_session_create(struct vercel_sandbox *box, struct err *err)
{
	struct session_creation *creation = xnew0(struct session_creation);
	int r;

	creation->vercel = box->vercel;
	creation->requested_ms = vercel_now_ms();
	memcpy(creation->box_id, box->id, sizeof(creation->box_id));
	memcpy(creation->source, box->snapshot, sizeof(creation->source));
	name_repository(box->source, &box->config, creation->repository,
	                sizeof(creation->repository));
	r = ask_for_sandbox(box, creation, err);
	if (r < 0) {
		free(creation);
		return r;
	}
	vercel_sandbox_move(box, VERCEL_SANDBOX_STARTING);
	return 0;
}
