// SPDX-License-Identifier: Apache-2.0
#include "build/set.h"

#include "base/log.h"
#include "build/bases.h"
#include "build/build_private.h"
#include "build/recipe/package.h"
#include "sandbox/code/language.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <openssl/evp.h>
#include <string.h>

#define KEY_CHARS    24 /* of the hash, in the name */
#define PROJECT_SETS 64
#define SUMMARY_MAX  200

/* The name of the template that it was made from, also if that is itself a set. */
static const char *base_name(const struct template *t)
{
	const char *of = json_string_value(
		json_object_get(json_object_get(template_manifest(t), "set"), "of"));

	return template_is_set(t) && of ? of : template_name(t);
}

static char *make_name(const struct template *base, const json_t *words)
{
	auto_free char *text = json_dumps(words, JSON_COMPACT);
	auto_free char *all = NULL;
	char image[DIGEST_HEX], key[DIGEST_HEX];
	struct digest hash;

	digest_to_hex(template_image(base), image);
	all = xasprintf("%s %s", image, text);
	if (EVP_Digest(all, strlen(all), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, key);
	return xasprintf("%s+%.*s", base_name(base), KEY_CHARS, key);
}

static char *make_summary(const struct template *base, const json_t *words)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PACKAGES_MAX * (PACKAGE_LEN_MAX + 8));
	size_t i;
	json_t *word;

	(void)!buf_printf(&text, "%s with", base_name(base));
	json_array_foreach(words, i, word)(void) !buf_printf(&text, "%s %s", i ? "," : "",
	                                                     json_string_value(word));
	if (text.len > SUMMARY_MAX)
		buf_truncate(&text, SUMMARY_MAX);
	return xstrdup(buf_str(&text));
}

/* Copies the start settings of its template: sandboxes of the set start in the same way. */
static void copy_fields(json_t *recipe, const json_t *manifest)
{
	static const char *const fields[] = {"env", "user", "cwd", "entrypoint"};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		json_t *value = json_object_get(manifest, fields[i]);

		if (value)
			(void)json_object_set(recipe, fields[i], value);
	}
}

static json_t *make_recipe(const struct template *base, const char *name, const json_t *words)
{
	static const char *const lists[] = {
		[PACKAGE_PIP] = "pip", [PACKAGE_NPM] = "npm_packages", [PACKAGE_APT] = "packages"};
	auto_free char *summary = make_summary(base, words);
	const json_t *manifest = template_manifest(base);
	const char *suite = json_string_value(json_object_get(manifest, "suite"));
	char image[DIGEST_HEX];
	json_t *recipe, *set;

	digest_to_hex(template_image(base), image);
	recipe = json_pack("{ssssss}", "name", name, "from", base_name(base), "summary", summary);
	set = json_pack("{ssssss}", "of", base_name(base), "image", image, "suite",
	                suite ? suite : "");
	(void)json_object_set(set, "packages", (json_t *)unconst(words));
	(void)json_object_set_new(recipe, "set", set);
	for (enum package_kind k = 0; k < PACKAGE_KIND_COUNT; k++)
		(void)json_object_set_new(recipe, lists[k], package_select(words, k));
	copy_fields(recipe, manifest);
	return recipe;
}

static int refuse_host(const struct builds *bs, const char *template, struct err *err)
{
	const char *wanted = fleet_config(bs->config.fleet)->default_template;

	(void)err_field(err, "packages",
	                "they are installed into a template's image, and `host` has none");
	if (template)
		return err_hint(err, "name another template: 'cloche template ls' lists them");
	return err_hint(err, "the template '%s' is not there yet: cloche template build %s",
	                wanted ? wanted : "python", wanted ? wanted : "python");
}

/* Refuses a build that cannot succeed, before anybody waits for it. */
static int check_languages(const struct builds *bs, const struct set_wish *w,
                           const struct template *base, const json_t *words, struct err *err)
{
	const json_t *has = json_object_get(template_manifest(base), "languages");

	for (enum package_kind k = 0; k < PACKAGE_KIND_COUNT; k++) {
		const char *language = package_kind_language(k);
		auto_json json_t *names = package_select(words, k);

		if (!language || json_array_size(names) == 0 || json_object_size(has) == 0 ||
		    json_object_get(has, language))
			continue;
		(void)err_field(err, "packages",
		                "'%s:%.64s' needs %s, and the template '%s' does not have it",
		                package_kind_name(k), json_string_value(json_array_get(names, 0)),
		                language, base_name(base));
		return language_hint(bs->config.fleet, w->project_id, language, err);
	}
	return 0;
}

static int begin(struct builds *bs, const struct set_wish *w, const struct template *base,
                 const char *name, const json_t *words, struct build **ret, struct err *err)
{
	auto_json json_t *recipe = make_recipe(base, name, words);
	int r = build_start(bs, &(struct build_spec){.project_id = w->project_id, .recipe = recipe},
	                    ret, err);

	return r < 0 ? r : 1;
}

int set_find(struct builds *bs, const struct set_wish *w, struct template **ret,
             struct build **ret_build, struct err *err)
{
	struct fleet *fleet = bs->config.fleet;
	auto_json json_t *words = NULL;
	auto_free char *name = NULL;
	enum package_kind bare;
	struct template *base = NULL;
	int r = template_resolve(fleet, w->project_id, w->template, &base, err);

	if (r < 0)
		return r;
	bare = package_kind_of(w->language,
	                       base ? json_object_get(template_manifest(base), "languages") : NULL);
	r = package_read(w->packages, bare, &words, err);
	*ret = NULL;
	if (r < 0 || json_array_size(words) == 0)
		return r;
	if (!base)
		return refuse_host(bs, w->template, err);
	r = check_languages(bs, w, base, words, err);
	if (r < 0)
		return r;
	name = make_name(base, words);
	*ret = template_find(fleet, w->project_id, name);
	if (*ret) {
		template_use(*ret);
		return 0;
	}
	*ret_build = builds_find_unfinished(bs, w->project_id, name);
	return *ret_build ? 1 : begin(bs, w, base, name, words, ret_build, err);
}

void set_to_json(const struct template *set, struct json_writer *w, const char *name)
{
	const json_t *manifest = template_manifest(set);
	uint64_t created_us = template_created_us(set);
	char image[DIGEST_HEX];

	digest_to_hex(template_image(set), image);
	json_open_object(w, name);
	json_put_value(w, "id", json_object_get(json_object_get(manifest, "set"), "build_id"));
	json_put_str(w, "name", template_name(set));
	json_put_str(w, "state", build_state_name(BUILD_READY));
	json_put_bool(w, "shared", false);
	json_put_bool(w, "cached", true);
	json_put_u64(w, "created_us", created_us);
	json_put_u64(w, "started_us", created_us);
	json_put_u64(w, "ended_us", created_us);
	json_put_null(w, "progress");
	json_put_str(w, "digest", image);
	json_put_null(w, "error");
	json_close_object(w);
}

/* A search for the set to remove first, and whether one must be removed. */
struct survey {
	const struct builds *bs;
	const struct template *newest;
	struct template *stale, *oldest;
	uint64_t bytes;
	size_t n_of_project;
};

static bool is_stale(const struct fleet *fleet, const struct template *t)
{
	const char *hex = json_string_value(
		json_object_get(json_object_get(template_manifest(t), "set"), "image"));
	struct digest base;

	if (json_object_get(template_manifest(t), "imported"))
		return false; /* an image of a registry, which is over no other */
	return !hex || digest_parse(hex, &base) < 0 || !template_has_image(fleet, &base);
}

static void look_at(struct template *t, void *arg)
{
	struct survey *s = arg;
	const struct fleet *fleet = s->bs->config.fleet;

	s->bytes += template_bytes(t);
	if (s->newest && strcmp(template_project_id(t), template_project_id(s->newest)) == 0)
		s->n_of_project++;
	if (t == s->newest || image_count_users(fleet, template_image(t)) > 0 ||
	    bases_need(s->bs, template_image(t)))
		return;
	if (is_stale(fleet, t))
		s->stale = t;
	if (!s->oldest || template_used_us(t) < template_used_us(s->oldest))
		s->oldest = t;
}

void set_trim(struct builds *bs, const struct template *newest)
{
	for (;;) {
		struct survey s = {.bs = bs, .newest = newest};
		struct template *t;
		struct err err;

		template_each_set(bs->config.fleet, look_at, &s);
		t = s.stale;
		if (!t && (s.bytes > bs->config.sets_bytes_max || s.n_of_project > PROJECT_SETS))
			t = s.oldest;
		if (!t)
			return;
		if (template_remove(t, &err) < 0) {
			log_warn("build.set_not_removed", "why='%s'", err.message);
			return;
		}
	}
}
