// SPDX-License-Identifier: Apache-2.0
/* Chooses one of the images in an archive: by name, then by what this machine can run. */
#include "oci/oci.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REF_ANNOTATION  "org.opencontainers.image.ref.name"
#define NAME_ANNOTATION "io.containerd.image.name"
#define OFFERS_SIZE     160

static const char *const index_types[] = {
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
};
static const char *const manifest_types[] = {
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
};

/* What there is to choose from, for an error. */
struct offers {
	char text[OFFERS_SIZE];
	size_t n;
};

const char *oci_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "this architecture has no name in images yet"
#endif
}

int oci_refuse(struct err *err, const char *fmt, ...)
{
	char text[300];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return err_set(err, ERR_FILE_INVALID, 0, "image: %s", text);
}

int oci_parse_digest(const json_t *value, const char *what, struct digest *ret, struct err *err)
{
	const char *text = json_string_value(value);

	if (!text)
		return oci_refuse(err, "%s has no digest", what);
	if (strncmp(text, "sha256:", 7) != 0 || digest_parse(text + 7, ret) < 0)
		return oci_refuse(err, "%s: '%.90s' is no SHA-256 digest", what, text);
	return 0;
}

const char *oci_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static bool is_among(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, list[i]) == 0)
			return true;
	return false;
}

static void offer(struct offers *o, const char *text)
{
	size_t len = strlen(o->text);

	if (!*text || strstr(o->text, text))
		return;
	o->n++;
	if (len + strlen(text) + 3 < sizeof(o->text))
		(void)snprintf(o->text + len, sizeof(o->text) - len, "%s%.60s", len ? ", " : "",
		               text);
}

/* A reference by its whole name, or by its tag: "python:3.13" or "3.13". */
static bool is_named(const char *name, const char *ref)
{
	const char *colon = strrchr(name, ':');

	return strcmp(name, ref) == 0 || (colon && strcmp(colon + 1, ref) == 0);
}

static bool has_ref(const json_t *descriptor, const char *ref, struct offers *refs)
{
	const json_t *notes = json_object_get(descriptor, "annotations");
	const char *tag = oci_text(notes, REF_ANNOTATION), *name = oci_text(notes, NAME_ANNOTATION);

	offer(refs, *name ? name : tag);
	return !ref || !*ref || (*tag && is_named(tag, ref)) || (*name && is_named(name, ref));
}

/* An image without a platform is judged later, by its config. Signatures and the like have
 * "unknown". */
static bool runs_here(const json_t *descriptor, const char *arch, struct offers *archs)
{
	const json_t *platform = json_object_get(descriptor, "platform");
	const char *os = oci_text(platform, "os"), *of = oci_text(platform, "architecture");

	if (!json_is_object(platform))
		return true;
	if (strcmp(of, "unknown") == 0)
		return false;
	offer(archs, of);
	return strcmp(of, arch) == 0 && (strcmp(os, "linux") == 0 || !*os);
}

static int read_blob(const json_t *descriptor, struct oci_blob *ret, struct err *err)
{
	const char *type = oci_text(descriptor, "mediaType");
	json_int_t bytes = json_integer_value(json_object_get(descriptor, "size"));
	bool is_index = is_among(type, index_types, ARRAY_SIZE(index_types));

	if (!is_index && !is_among(type, manifest_types, ARRAY_SIZE(manifest_types)))
		return oci_refuse(err, "'%.100s' is no type of image that is known here", type);
	if (bytes <= 0 || (uint64_t)bytes > OCI_JSON_MAX)
		return oci_refuse(err, "a manifest's size is missing, or over %zu MiB",
		                  OCI_JSON_MAX >> 20);
	*ret = (struct oci_blob){.is_index = is_index, .bytes = (uint64_t)bytes};
	return oci_parse_digest(json_object_get(descriptor, "digest"), "a manifest", &ret->digest,
	                        err);
}

static int tell_none(const struct oci_wish *wish, const struct offers *refs,
                     const struct offers *archs, bool has_named, struct err *err)
{
	if (!has_named && wish->ref && *wish->ref)
		return oci_refuse(err, "nothing in it is named '%.60s'; it has: %s", wish->ref,
		                  refs->n ? refs->text : "one without a name");
	if (archs->n > 0)
		return oci_refuse(err, "it is for %s, and this machine is %s", archs->text,
		                  wish->arch);
	return oci_refuse(err, "the index has no image");
}

int oci_choose(const json_t *index, const struct oci_wish *wish, struct oci_blob *ret,
               struct err *err)
{
	const json_t *all = json_object_get(index, "manifests"), *one;
	struct offers refs = {0}, archs = {0};
	struct oci_blob found = {0};
	bool has_named = false, has_one = false;
	size_t i;

	if (!json_is_array(all))
		return oci_refuse(err, "the index has no list 'manifests'");
	json_array_foreach(all, i, one)
	{
		struct oci_blob blob;
		int r;

		if (!has_ref(one, wish->ref, &refs))
			continue;
		has_named = true;
		if (!runs_here(one, wish->arch, &archs))
			continue;
		r = read_blob(one, &blob, err);
		if (r < 0)
			return r;
		if (has_one && !digest_equal(&found.digest, &blob.digest))
			return oci_refuse(err, "there are several: %s; say which (ref)",
			                  refs.n ? refs.text : "without names");
		found = blob;
		has_one = true;
	}
	if (!has_one)
		return tell_none(wish, &refs, &archs, has_named, err);
	*ret = found;
	return 0;
}

static int read_paths(const json_t *layers, struct oci_saved *ret, struct err *err)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(layers) || json_array_size(layers) > OCI_LAYERS_MAX)
		return oci_refuse(err, "manifest.json has no layers, or more than %d",
		                  OCI_LAYERS_MAX);
	ret->layers = xcalloc(MAX(json_array_size(layers), (size_t)1), sizeof(*ret->layers));
	json_array_foreach(layers, i, one)
	{
		ret->layers[i] = json_string_value(one);
		if (!ret->layers[i])
			return oci_refuse(err, "a layer of manifest.json is no text");
	}
	ret->n_layers = json_array_size(layers);
	return 0;
}

static bool has_tag(const json_t *image, const char *ref, struct offers *refs)
{
	const json_t *one;
	bool found = !ref || !*ref;
	size_t i;

	json_array_foreach(json_object_get(image, "RepoTags"), i, one)
	{
		const char *tag = json_string_value(one);

		if (!tag)
			continue;
		offer(refs, tag);
		found = found || is_named(tag, ref);
	}
	return found;
}

int oci_choose_saved(const json_t *saved, const char *ref, struct oci_saved *ret, struct err *err)
{
	const json_t *one, *found = NULL;
	struct offers refs = {0};
	size_t i;
	int r;

	*ret = (struct oci_saved){0};
	if (!json_is_array(saved))
		return oci_refuse(err, "manifest.json is no list");
	json_array_foreach(saved, i, one)
	{
		if (!has_tag(one, ref, &refs))
			continue;
		if (found)
			return oci_refuse(err, "there are several: %s; say which (ref)",
			                  refs.n ? refs.text : "without names");
		found = one;
	}
	if (!found)
		return oci_refuse(err, "nothing in it is named '%.60s'; it has: %s", ref ? ref : "",
		                  refs.n ? refs.text : "none");
	ret->config = json_string_value(json_object_get(found, "Config"));
	if (!ret->config)
		return oci_refuse(err, "manifest.json names no config");
	r = read_paths(json_object_get(found, "Layers"), ret, err);
	if (r < 0)
		oci_saved_done(ret);
	return r;
}

void oci_saved_done(struct oci_saved *s)
{
	free(s->layers);
	*s = (struct oci_saved){0};
}
