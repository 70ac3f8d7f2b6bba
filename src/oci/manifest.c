// SPDX-License-Identifier: Apache-2.0
/* Reads one image: its layers and its defaults (environment, user, command). */
#include "oci/oci.h"

#include <string.h>

/* clang-format off */
static const char *const layer_types[] = {
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.oci.image.layer.v1.tar+zstd",
	"application/vnd.oci.image.layer.nondistributable.v1.tar",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
	"application/vnd.docker.image.rootfs.diff.tar",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
	"application/vnd.docker.image.rootfs.diff.tar.zstd",
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};
static const char *const config_types[] = {
	"application/vnd.oci.image.config.v1+json",
	"application/vnd.docker.container.image.v1+json",
};
/* clang-format on */

static int read_blob(const json_t *descriptor, const char *what, const char *const *types, size_t n,
                     struct oci_blob *ret, struct err *err)
{
	const char *type = oci_text(descriptor, "mediaType");
	json_int_t bytes = json_integer_value(json_object_get(descriptor, "size"));
	bool is_known = false;

	for (size_t i = 0; i < n; i++)
		is_known = is_known || strcmp(type, types[i]) == 0;
	if (!is_known)
		return oci_refuse(err, "%s is of the unknown type '%.100s'", what, type);
	if (bytes <= 0)
		return oci_refuse(err, "%s has no size", what);
	*ret = (struct oci_blob){.bytes = (uint64_t)bytes};
	return oci_parse_digest(json_object_get(descriptor, "digest"), what, &ret->digest, err);
}

static int read_layers(const json_t *layers, struct oci_manifest *ret, struct err *err)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(layers) || json_array_size(layers) > OCI_LAYERS_MAX)
		return oci_refuse(err, "the manifest has no layers, or more than %d",
		                  OCI_LAYERS_MAX);
	ret->layers = xcalloc(MAX(json_array_size(layers), (size_t)1), sizeof(*ret->layers));
	json_array_foreach(layers, i, one)
	{
		int r = read_blob(one, "a layer", layer_types, ARRAY_SIZE(layer_types),
		                  &ret->layers[i], err);

		if (r < 0)
			return r;
	}
	ret->n_layers = json_array_size(layers);
	return 0;
}

int oci_read_manifest(const json_t *manifest, struct oci_manifest *ret, struct err *err)
{
	int r;

	*ret = (struct oci_manifest){0};
	if (json_integer_value(json_object_get(manifest, "schemaVersion")) != 2)
		return oci_refuse(err, "the manifest is not of version 2");
	r = read_blob(json_object_get(manifest, "config"), "the config", config_types,
	              ARRAY_SIZE(config_types), &ret->config, err);
	if (r == 0 && ret->config.bytes > OCI_JSON_MAX)
		r = oci_refuse(err, "the config is over %zu MiB", OCI_JSON_MAX >> 20);
	if (r == 0)
		r = read_layers(json_object_get(manifest, "layers"), ret, err);
	if (r < 0)
		oci_manifest_done(ret);
	return r;
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->layers);
	*m = (struct oci_manifest){0};
}

static int read_diff_ids(const json_t *config, struct oci_config *ret, struct err *err)
{
	const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids"), *one;
	size_t i;

	if (!json_is_array(ids) || json_array_size(ids) > OCI_LAYERS_MAX)
		return oci_refuse(err, "the config has no diff_ids, or more than %d",
		                  OCI_LAYERS_MAX);
	ret->diff_ids = xcalloc(MAX(json_array_size(ids), (size_t)1), sizeof(*ret->diff_ids));
	json_array_foreach(ids, i, one)
	{
		int r = oci_parse_digest(one, "a diff_id", &ret->diff_ids[i], err);

		if (r < 0)
			return r;
	}
	ret->n_diff_ids = json_array_size(ids);
	return 0;
}

/* ["NAME=value", …] as an object. */
static int read_env(const json_t *list, json_t *defaults, struct err *err)
{
	json_t *env;
	const json_t *one;
	size_t i;

	if (!json_is_array(list))
		return 0;
	env = json_object();
	(void)json_object_set_new(defaults, "env", env);
	json_array_foreach(list, i, one)
	{
		const char *text = json_string_value(one);
		const char *equals = text ? strchr(text, '=') : NULL;
		auto_free char *name = NULL;

		if (!equals || equals == text)
			return oci_refuse(err, "a variable of the config is not NAME=value");
		name = xstrndup(text, (size_t)(equals - text));
		(void)json_object_set_new(env, name, json_string(equals + 1));
	}
	return 0;
}

static int read_words(const json_t *config, const char *from, const char *to, json_t *defaults,
                      struct err *err)
{
	json_t *words = json_object_get(config, from);
	const json_t *one;
	size_t i;

	if (!words || json_is_null(words))
		return 0;
	if (!json_is_array(words))
		return oci_refuse(err, "the config's %s is no list", from);
	json_array_foreach(words, i, one)
	{
		if (!json_is_string(one))
			return oci_refuse(err, "a word of the config's %s is no text", from);
	}
	if (json_array_size(words) > 0)
		(void)json_object_set(defaults, to, words);
	return 0;
}

/* "USER[:GROUP]". If no user is named it is root, as in other runtimes. Root has its own group. */
static void read_user(const json_t *config, json_t *defaults)
{
	const char *user = oci_text(config, "User");
	auto_free char *name = xstrndup(user, strcspn(user, ":"));
	bool is_root = !*name || strcmp(name, "0") == 0;

	(void)json_object_set_new(defaults, "user", json_string(is_root ? "root" : user));
}

static int read_defaults(const json_t *config, json_t *defaults, struct err *err)
{
	const char *cwd = oci_text(config, "WorkingDir");
	json_t *facts;
	int r = read_env(json_object_get(config, "Env"), defaults, err);

	read_user(config, defaults);
	if (*cwd)
		(void)json_object_set_new(defaults, "cwd", json_string(cwd));
	if (r == 0)
		r = read_words(config, "Entrypoint", "entrypoint", defaults, err);
	if (r == 0)
		r = read_words(config, "Cmd", "cmd", defaults, err);
	facts = oci_config_facts(config);
	if (json_object_size(facts) > 0)
		(void)json_object_set(defaults, "config", facts);
	json_decref(facts);
	return r;
}

int oci_read_config(const json_t *config, const char *arch, struct oci_config *ret, struct err *err)
{
	const char *os = oci_text(config, "os"), *of = oci_text(config, "architecture");
	const json_t *inner = json_object_get(config, "config");
	int r;

	*ret = (struct oci_config){0};
	if (!json_is_object(config))
		return oci_refuse(err, "the config is no object");
	if (strcmp(os, "linux") != 0 || strcmp(of, arch) != 0)
		return oci_refuse(err, "it is for %.30s on %.30s, and this machine is linux on %s",
		                  *os ? os : "an unnamed system", *of ? of : "an unnamed machine",
		                  arch);
	ret->defaults = json_object();
	ret->label =
		json_string_value(json_object_get(json_object_get(inner, "Labels"), OCI_LABEL));
	r = read_diff_ids(config, ret, err);
	if (r == 0)
		r = read_defaults(inner, ret->defaults, err);
	if (r < 0)
		oci_config_done(ret);
	return r;
}

void oci_config_done(struct oci_config *c)
{
	free(c->diff_ids);
	json_decref(c->defaults);
	*c = (struct oci_config){0};
}
