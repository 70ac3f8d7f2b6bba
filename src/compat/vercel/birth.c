// SPDX-License-Identifier: Apache-2.0
/*
 * How a session comes to be: a sandbox is asked for with the lodge's settings, from its current
 * snapshot or, the first time, from a template, and then furnished. It is recorded as the lodge's
 * session when it is ready, not before; a daemon that dies in between finds the sandbox by the note
 * in it, and deletes it.
 */
#include "compat/vercel/lodge.h"
#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "sandbox/template.h"

#include <stdio.h>
#include <string.h>

#define PATH_DEFAULT "/vercel/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define USER_DEFAULT "user"

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

static void on_furnished(const struct err *err, void *arg)
{
	struct stay *s = errand_end(arg);
	struct sandbox *native = s ? stay_sandbox(s) : NULL;
	struct err gone;
	struct lodge *b;

	if (!s)
		return;
	if (!err && native) {
		lodge_born(s, native);
		return;
	}
	b = s->lodge;
	if (!err)
		(void)err_set(&gone, ERR_GUEST, 0, "the sandbox ended while it was being made");
	if (native)
		sandbox_delete(native, END_DELETED, on_deleted, NULL);
	stay_free(s);
	lodge_unborn(b, err ? err : &gone);
}

static const struct template *template_of(const struct lodge *b)
{
	const struct fleet *fleet = b->vercel->api->fleet;
	const char *name = b->config.image ? b->config.image : b->config.runtime;
	const struct template *t = name ? find_image(fleet, b->project_id, name) : NULL;

	return t ? t : template_default(fleet);
}

const char *lodge_user(const struct lodge *b)
{
	const struct template *t = template_of(b);
	const char *user =
		t ? json_string_value(json_object_get(template_manifest(t), "user")) : NULL;

	return user && user[0] ? user : USER_DEFAULT;
}

/* A lodge that is being made knows no session yet; what is made for it is found by its id. */
struct birth {
	struct vercel *vercel;
	char lodge_id[ID_SIZE], source[ID_SIZE];
	uint64_t requested_ms;
	char repository[256]; /* of a git source: the directory that it becomes, or "" */
	bool has_source;
};

static struct lodge *find_by_id(const struct vercel *v, const char *id)
{
	list_for_each (&v->lodges, struct lodge, b, link)
		if (strcmp(b->id, id) == 0)
			return b;
	return NULL;
}

static void on_created(struct sandbox *native, const struct err *err, void *arg)
{
	auto_free struct birth *birth = arg;
	struct lodge *b = find_by_id(birth->vercel, birth->lodge_id);
	struct stay *s;

	if (!b) {
		if (native)
			sandbox_delete(native, END_DELETED, on_deleted, NULL);
		return;
	}
	if (err) {
		lodge_unborn(b, err);
		return;
	}
	s = stay_new(b, sandbox_id(native));
	s->requested_ms = birth->requested_ms;
	s->timeout_ms = b->config.timeout_ms;
	s->vcpus = b->config.vcpus;
	s->memory_mib = b->config.memory_mib;
	memcpy(s->source, birth->source, sizeof(s->source));
	if (s->source[0])
		lodge_born(s, native);
	else
		furnish(native, lodge_user(b), birth->has_source ? birth->repository : NULL,
		        on_furnished, errand_new(s));
}

static json_t *make_env(const struct lodge *b)
{
	const struct template *t = template_of(b);
	json_t *env = json_deep_copy(b->config.env);
	const json_t *own = t ? json_object_get(template_manifest(t), "env") : NULL;

	if (!json_object_get(env, "PATH") && !json_object_get(own, "PATH"))
		(void)json_object_set_new(env, "PATH", json_string(PATH_DEFAULT));
	return env;
}

/* As much of what was asked for as this host has. */
static struct guest_limits make_limits(const struct lodge *b)
{
	const struct guest_limits *most = &fleet_config(b->vercel->api->fleet)->max_limits;
	struct guest_limits limits = {.memory_bytes = b->config.memory_mib << 20,
	                              .cpu_milli = (uint32_t)b->config.vcpus * 1000};

	if (most->memory_bytes)
		limits.memory_bytes = MIN(limits.memory_bytes, most->memory_bytes);
	if (most->cpu_milli)
		limits.cpu_milli = MIN(limits.cpu_milli, most->cpu_milli);
	return limits;
}

static json_t *make_volumes(const struct lodge *b)
{
	json_t *volumes = json_array(), *mount;
	const char *path;

	json_object_foreach (b->config.mounts, path, mount) {
		const char *mode = json_string_value(json_object_get(mount, "mode"));

		(void)json_array_append_new(volumes,
		                            json_pack("{s:s, s:O, s:b}", "path", path, "volume",
		                                      json_object_get(mount, "drive"), "read_only",
		                                      mode && strcmp(mode, "snapshot") == 0));
	}
	return volumes;
}

static int ask_for_sandbox(struct lodge *b, struct birth *birth, struct err *err)
{
	auto_json json_t *env = make_env(b), *policy = NULL, *volumes = make_volumes(b);
	auto_json json_t *notes = json_pack("{s:s}", LODGE_NOTE, b->id);
	auto_json json_t *tags = json_pack("{s:s}", "vercel/name", b->name);
	const struct template *t = template_of(b);
	struct sandbox_spec spec = {.key_id = b->key_id[0] ? b->key_id : NULL,
	                            .template = t ? template_id(t) : NULL,
	                            .env = env,
	                            .tags = tags,
	                            .notes = notes,
	                            .volumes = volumes,
	                            .source = b->source,
	                            .limits = make_limits(b),
	                            .timeout_ms = b->config.timeout_ms,
	                            .on_timeout = "stop",
	                            .is_persistent = b->config.is_persistent};
	int r = policy_to_native(b->config.policy, &policy, err);

	if (r < 0)
		return r;
	spec.network = policy;
	if (birth->source[0]) {
		spec.snapshot = birth->source;
		spec.template = NULL;
		spec.source = NULL;
	}
	birth->has_source = spec.source != NULL;
	return sandbox_create(b->vercel->api->fleet, b->project_id, &spec, on_created, birth, err);
}

/* "https://host/owner/name.git" becomes "name". */
static void name_repository(const json_t *source, const struct lodge_config *c, char *ret,
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

int birth_begin(struct lodge *b, struct err *err)
{
	struct birth *birth = xnew0(struct birth);
	int r;

	birth->vercel = b->vercel;
	birth->requested_ms = vercel_now_ms();
	memcpy(birth->lodge_id, b->id, sizeof(birth->lodge_id));
	memcpy(birth->source, b->snapshot, sizeof(birth->source));
	name_repository(b->source, &b->config, birth->repository, sizeof(birth->repository));
	r = ask_for_sandbox(b, birth, err);
	if (r < 0) {
		free(birth);
		return r;
	}
	lodge_move(b, LODGE_STARTING);
	return 0;
}
