// SPDX-License-Identifier: Apache-2.0
/* Reads a sandbox's settings from the bodies of create, fork and update. No I/O; fuzzed. */
#include "api/frame/body.h"

#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "sandbox/storage/volume.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES   128
#define PORT_MIN         1024
#define PORTS_MAX_THEIRS 15
#define TAGS_MAX         5
#define TAG_VALUE_MAX    256
#define VCPUS_MAX        64
#define MIB_PER_VCPU     2048
#define VCPUS_DEFAULT    2
#define TIMEOUT_DEFAULT  300000
#define TIMEOUT_MIN      1000
#define EXPIRES_DEFAULT  (30 * UINT64_C(86400000))
#define KEEP_LAST_MAX    10

int body_read(const json_t *object, const char *prefix, const struct json_field *fields, size_t n,
              struct err *err)
{
	auto_json json_t *known = json_object();

	if (!object)
		return 0;
	if (!json_is_object(object))
		return err_set(err, ERR_BAD_REQUEST, 0, "the body must be an object");
	for (size_t i = 0; i < n; i++) {
		json_t *value = json_object_get(object, fields[i].name);

		if (value)
			(void)json_object_set(known, fields[i].name, value);
	}
	return json_read(known, prefix, fields, n, err);
}

void vercel_sandbox_body_done(struct vercel_sandbox_body *body)
{
	json_decref(body->source);
}

void vercel_sandbox_config_default(struct vercel_sandbox_config *c)
{
	*c = (struct vercel_sandbox_config){.is_persistent = true,
	                                    .vcpus = VCPUS_DEFAULT,
	                                    .memory_mib = VCPUS_DEFAULT * MIB_PER_VCPU,
	                                    .timeout_ms = TIMEOUT_DEFAULT,
	                                    .snapshot_expires_ms = EXPIRES_DEFAULT,
	                                    .env = json_object(),
	                                    .tags = json_object(),
	                                    .mounts = json_object(),
	                                    .ports = json_array(),
	                                    .failover_regions = json_array(),
	                                    .policy = json_pack("{s:s}", "mode", "allow-all")};
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

void vercel_sandbox_config_copy(struct vercel_sandbox_config *to,
                                const struct vercel_sandbox_config *from)
{
	*to = *from;
	to->runtime = copy(from->runtime);
	to->image = copy(from->image);
	to->region = copy(from->region);
	to->network_id = copy(from->network_id);
	to->env = json_deep_copy(from->env);
	to->tags = json_deep_copy(from->tags);
	to->mounts = json_deep_copy(from->mounts);
	to->ports = json_deep_copy(from->ports);
	to->failover_regions = json_deep_copy(from->failover_regions);
	to->policy = json_deep_copy(from->policy);
	to->locked = copy(from->locked);
}

static void replace(json_t **to, const json_t *value)
{
	if (!value)
		return;
	json_decref(*to);
	*to = json_deep_copy(value);
}

static void replace_text(char **to, const char *text)
{
	if (!text)
		return;
	free(*to);
	*to = xstrdup(text);
}

static int check_name(const char *name, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	static const char *const taken[] = {"sessions", "snapshots", "drives"};

	if (!name)
		return 0;
	if (strspn(name, letters) != strlen(name))
		return err_field(err, "name", "may have letters, digits, '_' and '-'");
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (strcmp(name, taken[i]) == 0)
			return err_field(err, "name", "'%s' is a path of the API", name);
	return 0;
}

static int check_ports(const json_t *ports, struct err *err)
{
	for (size_t i = 0; i < json_array_size(ports); i++) {
		const json_t *port = json_array_get(ports, i);
		json_int_t number = json_integer_value(port);

		if (!json_is_integer(port) || number < PORT_MIN || number > UINT16_MAX)
			return err_field(err, "ports", "must be numbers from %d to %d", PORT_MIN,
			                 UINT16_MAX);
		for (size_t k = 0; k < i; k++)
			if (json_integer_value(json_array_get(ports, k)) == number)
				return err_field(err, "ports", "has %d twice", (int)number);
	}
	return 0;
}

static int check_tags(const json_t *tags, struct err *err)
{
	const char *name;
	json_t *value;

	if (json_object_size(tags) > TAGS_MAX)
		return err_field(err, "tags", "there may be up to %d", TAGS_MAX);
	json_object_foreach ((json_t *)unconst(tags), name, value) {
		if (!json_is_string(value) || json_string_length(value) > TAG_VALUE_MAX ||
		    strlen(name) > TAG_VALUE_MAX)
			return err_field(err, "tags", "are strings of up to %d bytes",
			                 TAG_VALUE_MAX);
	}
	return 0;
}

static int read_resources(const json_t *value, struct vercel_sandbox_config *c, struct err *err)
{
	uint64_t vcpus = 0, memory = 0;
	const struct json_field fields[] = {
		{"vcpus", JSON_FIELD_U64, &vcpus, .min = 1, .max = VCPUS_MAX},
		{"memory", JSON_FIELD_U64, &memory, .min = 1, .max = VCPUS_MAX * MIB_PER_VCPU},
	};
	int r = body_read(value, "resources.", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (vcpus) {
		c->vcpus = vcpus;
		c->memory_mib = vcpus * MIB_PER_VCPU;
	}
	if (memory)
		c->memory_mib = memory;
	return 0;
}

static int read_keep_last(const json_t *value, struct vercel_sandbox_config *c, struct err *err)
{
	bool deletes = true;
	const struct json_field fields[] = {
		{"count", JSON_FIELD_U64, &c->keep_last, true, .min = 1, .max = KEEP_LAST_MAX},
		{"expiration", JSON_FIELD_U64, &c->keep_last_expires_ms, .max = TIMEOUT_MS_MAX,
	         .ret_given = &c->has_keep_expiry},
		{"deleteEvicted", JSON_FIELD_BOOL, &deletes},
	};
	int r;

	if (!value)
		return 0;
	c->keep_last = 0;
	c->has_keep_expiry = false;
	if (json_is_null(value))
		return 0;
	r = body_read(value, "keepLastSnapshots.", fields, ARRAY_SIZE(fields), err);
	c->keeps_evicted = !deletes;
	return r;
}

static int read_source(const json_t *value, struct vercel_sandbox_body *ret, struct err *err)
{
	const char *type = NULL, *url = NULL, *revision = NULL, *username = NULL, *password = NULL;
	uint64_t depth = 0;
	const struct json_field fields[] = {
		{"type", JSON_FIELD_STRING, &type, true},
		{"url", JSON_FIELD_STRING, &url, .max = 2048},
		{"depth", JSON_FIELD_U64, &depth, .max = UINT32_MAX},
		{"revision", JSON_FIELD_STRING, &revision, .max = 256},
		{"username", JSON_FIELD_STRING, &username, .max = 1024},
		{"password", JSON_FIELD_STRING, &password, .max = 4096},
		{"snapshotId", JSON_FIELD_STRING, &ret->snapshot_id, .min = 1, .max = 64},
	};
	int r = body_read(value, "source.", fields, ARRAY_SIZE(fields), err);

	if (r < 0 || !value)
		return r;
	if (strcmp(type, "snapshot") == 0)
		return ret->snapshot_id ? 0 : err_field(err, "source.snapshotId", "is missing");
	if (!url)
		return err_field(err, "source.url", "is missing");
	ret->snapshot_id = NULL;
	ret->source = json_pack("{s:s, s:s, s:s}", "type", type, "url", url, "path", VERCEL_SOURCE);
	if (depth)
		(void)json_object_set_new(ret->source, "depth", json_integer((json_int_t)depth));
	if (revision && revision[0])
		(void)json_object_set_new(ret->source, "revision", json_string(revision));
	if (username && password)
		(void)json_object_set_new(
			ret->source, "credentials",
			json_pack("{s:s, s:s}", "username", username, "password", password));
	return 0;
}

static int read_mount(const char *path, const json_t *mount, json_t *ret, struct err *err)
{
	const char *drive = NULL, *mode = "read-write", *why = volume_check_path(path);
	const struct json_field fields[] = {
		{"drive", JSON_FIELD_STRING, &drive, true, .min = 1, .max = VOLUME_NAME_MAX},
		{"mode", JSON_FIELD_STRING, &mode},
	};
	int r = why ? err_field(err, "mounts", "path '%.64s' %s", path, why) : 0;

	if (r == 0)
		r = json_is_object(mount)
		            ? body_read(mount, "mounts.", fields, ARRAY_SIZE(fields), err)
		            : err_field(err, "mounts", "must be a map of paths to drives");
	if (r < 0)
		return r;
	if (strcmp(mode, "read-only") == 0)
		mode = "snapshot";
	if (strcmp(mode, "snapshot") != 0 && strcmp(mode, "read-write") != 0)
		return err_field(err, "mounts", "mode must be read-write or snapshot");
	(void)json_object_set_new(ret, path, json_pack("{s:s, s:s}", "drive", drive, "mode", mode));
	return 0;
}

/* Whether the drives exist is checked when a session starts. */
static int read_mounts(const json_t *mounts, json_t **ret, struct err *err)
{
	auto_json json_t *read = json_object();
	const char *path;
	json_t *mount;

	if (json_object_size(mounts) > VOLUMES_MAX)
		return err_field(err, "mounts", "%d drives are the most", VOLUMES_MAX);
	json_object_foreach ((json_t *)unconst(mounts), path, mount) {
		int r = read_mount(path, mount, read, err);

		if (r < 0)
			return r;
	}
	*ret = take_ptr(read);
	return 0;
}

/* In an update null removes the value; in the others it counts as absent. */
static void replace_or_clear(char **to, const json_t *body, const char *field, const char *text)
{
	if (json_is_null(json_object_get(body, field))) {
		free(*to);
		*to = NULL;
	}
	replace_text(to, text);
}

int body_read_vercel_sandbox(const json_t *body, enum body_kind kind,
                             struct vercel_sandbox_config *c, struct vercel_sandbox_body *ret,
                             struct err *err)
{
	const char *runtime = NULL, *image = NULL, *region = NULL, *network_id = NULL;
	json_t *ports = NULL, *source = NULL, *resources = NULL, *env = NULL, *tags = NULL;
	json_t *policy = NULL, *mounts = NULL, *failover = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",               JSON_FIELD_STRING, &ret->name, .min = 1, .max = NAME_MAX_BYTES},
		{"projectId",          JSON_FIELD_STRING, &ret->space, .max = NAME_MAX_BYTES},
		{"ports",              JSON_FIELD_ARRAY,  &ports, .max = PORTS_MAX_THEIRS, .ret_given = &ret->has_ports},
		{"source",             JSON_FIELD_OBJECT, &source},
		{"timeout",            JSON_FIELD_U64,    &c->timeout_ms, .min = TIMEOUT_MIN, .max = TIMEOUT_MS_MAX},
		{"resources",          JSON_FIELD_OBJECT, &resources},
		{"runtime",            JSON_FIELD_STRING, &runtime, .min = 1, .max = 64},
		{"image",              JSON_FIELD_STRING, &image, .min = 1, .max = 255},
		{"persistent",         JSON_FIELD_BOOL,   &c->is_persistent},
		{"networkPolicy",      JSON_FIELD_ANY,    &policy},
		{"env",                JSON_FIELD_OBJECT, &env},
		{"tags",               JSON_FIELD_OBJECT, &tags},
		{"snapshotExpiration", JSON_FIELD_U64,    &c->snapshot_expires_ms, .max = TIMEOUT_MS_MAX},
		{"mounts",             JSON_FIELD_OBJECT, &mounts},
		{"region",             JSON_FIELD_STRING, &region, .min = 1, .max = 64},
		{"failoverRegions",    JSON_FIELD_ARRAY,  &failover, .max = 32},
		{"networkId",          JSON_FIELD_STRING, &network_id, .min = 1, .max = 128},
		{"currentSnapshotId",  JSON_FIELD_STRING, &ret->snapshot_id, .min = 1, .max = 64, .ret_given = &ret->has_snapshot},
		{"__interactive",      JSON_FIELD_BOOL,   &ret->is_interactive},
	};
	/* clang-format on */
	json_t *read = NULL;
	auto_json json_t *places = NULL;
	int r = body_read(body, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = check_name(ret->name, err);
	if (r == 0)
		r = check_ports(ports, err);
	if (r == 0)
		r = check_tags(tags, err);
	if (r == 0 && env)
		r = body_check_env(env, "env", err);
	if (r == 0)
		r = read_resources(resources, c, err);
	if (r == 0)
		r = read_keep_last(json_object_get(body, "keepLastSnapshots"), c, err);
	if (r == 0 && kind == BODY_CREATE)
		r = read_source(source, ret, err);
	if (r == 0)
		r = mounts ? read_mounts(mounts, &places, err) : 0;
	if (r == 0 && policy)
		r = policy_read_theirs(policy, &read, err);
	if (r < 0)
		return r;
	replace(&c->ports, ports);
	replace(&c->env, env);
	replace(&c->tags, tags);
	replace(&c->mounts, places);
	replace(&c->failover_regions, failover);
	replace(&c->policy, read);
	if (read)
		free(take_ptr(c->locked));
	json_decref(read);
	if (kind == BODY_CREATE) {
		replace_text(&c->runtime, runtime);
		replace_text(&c->image, image);
	}
	replace_text(&c->region, region);
	replace_or_clear(&c->network_id, body, "networkId", network_id);
	return 0;
}
