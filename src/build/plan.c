// SPDX-License-Identifier: Apache-2.0
#include "build/plan.h"

#include "base/parse.h"
#include "build/bases.h"
#include "build/part.h"
#include "build/recipe/recipe.h"
#include "build/recipe/script.h"
#include "sandbox/storage/image.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#define ARCH "amd64"
#elif defined(__aarch64__)
#define ARCH "arm64"
#else
#error "Debian's name of this architecture is not known"
#endif

#define LINE_MAX_BYTES 1024

/* clang-format off */
static const struct {
	const char *name;
	const char *before, *script, *behind; /* in one shell */
	bool is_on_host, is_sealed;
} steps[] = {
	[STEP_STATE]      = {"state",      "",             script_state,      "",            true,  false},
	[STEP_REGISTRIES] = {"registries", script_archive, script_registries, "",            true,  false},
	[STEP_BOOTSTRAP]  = {"bootstrap",  script_archive, script_bootstrap,  "",            true,  true},
	[STEP_KERNEL]     = {"kernel",     script_archive, script_kernel,     "",            true,  true},
	[STEP_PACKAGES]   = {"packages",   "",             script_packages,   script_finish, false, true},
	[STEP_EXTRAS]     = {"extras",     "",             script_extras,     script_finish, false, true},
	[STEP_CONTEXT]    = {"files",      script_place,   script_contents,   "",            true,  false},
	[STEP_CARRY]      = {"carry",      "",             script_carry,      "",            true,  false},
	[STEP_PART]       = {"dockerfile", "",             script_part,       script_finish, false, true},
	[STEP_CHECKS]     = {"checks",     "",             script_checks,     "",            false, false},
};
/* clang-format on */
static_assert(ARRAY_SIZE(steps) == STEP_COUNT, "a step has no row");

const char *plan_arch(void)
{
	return ARCH;
}

const char *step_name(enum step step)
{
	return steps[step].name;
}

bool plan_is_sealed(enum step step)
{
	return steps[step].is_sealed;
}

bool plan_is_on_host(const struct build *b, enum step step)
{
	return steps[step].is_on_host || (step == STEP_PART && part_is_tree(b));
}

static bool has_items(const struct build *b, const char *field)
{
	const json_t *value = json_object_get(b->recipe, field);

	return json_array_size(value) > 0 || json_object_size(value) > 0;
}

static bool is_kernel(const struct build *b)
{
	return has_items(b, "kernel");
}

static bool has_npm(const struct build *b)
{
	auto_json json_t *npm = recipe_npm(b->recipe, ARCH);

	return json_object_size(npm) > 0;
}

static bool has_extras(const struct build *b)
{
	return has_npm(b) || has_items(b, "npm_packages") || has_items(b, "pip") ||
	       has_items(b, "files") || has_items(b, "run");
}

static const char *npm_registry(const struct build *b)
{
	const char *own = b->owner->config.npm_registry;

	return own ? own : b->owner->learnt.npm;
}

static const char *pip_index(const struct build *b)
{
	const char *own = b->owner->config.pip_index;

	return own ? own : b->owner->learnt.pip;
}

/* The programs whose registry must be found out. */
static const char *unknown_registries(const struct build *b)
{
	bool npm = (has_npm(b) || has_items(b, "npm_packages")) && !npm_registry(b)[0];
	bool pip = has_items(b, "pip") && !pip_index(b)[0];

	return npm && pip ? "npm pip" : npm ? "npm" : pip ? "pip" : "";
}

bool plan_has(const struct build *b, enum step step)
{
	struct part_carry carry;

	if (part_is_any(b) && step < STEP_CONTEXT)
		return false;
	switch (step) {
	case STEP_STATE:
		return b->suite[0] != '\0';
	case STEP_REGISTRIES: /* without archives there is nobody to ask */
		return b->suite[0] && unknown_registries(b)[0];
	case STEP_BOOTSTRAP:
		return recipe_suite(b->recipe) != NULL && !is_kernel(b);
	case STEP_KERNEL:
		return is_kernel(b);
	case STEP_PACKAGES: /* or there would be nothing to seal */
		return !is_kernel(b) &&
		       (recipe_suite(b->recipe) || has_items(b, "packages") || !has_extras(b));
	case STEP_EXTRAS:
		return has_extras(b);
	case STEP_CONTEXT:
		return part_has_copies(b);
	case STEP_CARRY:
		return part_carry(b, b->carried, &carry);
	case STEP_PART:
		return b->part < part_count(b);
	case STEP_CHECKS:
		return has_items(b, "checks");
	case STEP_COUNT:
		break;
	}
	return false;
}

bool plan_is_last(const struct build *b, enum step step)
{
	return step == STEP_EXTRAS || step == STEP_KERNEL ||
	       (step == STEP_PART && part_is_last(b)) ||
	       (step == STEP_PACKAGES && !plan_has(b, STEP_EXTRAS));
}

void plan_place(const struct build *b, unsigned *ret_index, unsigned *ret_count)
{
	*ret_index = 0;
	*ret_count = bases_are_due(b); /* before all others */
	for (enum step s = 0; s < STEP_COUNT; s++) {
		const size_t n = s == STEP_PART    ? part_count(b)
		                 : s == STEP_CARRY ? 0 /* it is of its part */
		                                   : plan_has(b, s);

		*ret_count += (unsigned)n;
		*ret_index += s < b->step ? (unsigned)n : s == b->step ? (unsigned)b->part : 0;
	}
}

const char *plan_user(const struct build *b, enum step step)
{
	const char *user = json_string_value(json_object_get(b->recipe, "user"));

	return step != STEP_CHECKS ? "root" : user ? user : "user";
}

/* The part of a suite's name after the release: "", "-updates" or "-security"; or NULL. */
static const char *suite_rest(const char *suite, size_t len, const char *release)
{
	static const char *const rests[] = {"", "-updates", "-security"};
	size_t n = strlen(release);

	if (len < n || strncmp(suite, release, n) != 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rests); i++)
		if (len - n == strlen(rests[i]) && strncmp(suite + n, rests[i], len - n) == 0)
			return rests[i];
	return NULL;
}

/* Appends the sources of a release, with the name of the suite. */
static void append_sources(const struct builds_config *c, const char *release, const char *suite,
                           struct buf *out)
{
	for (char **p = c->sources; p && *p; p++) {
		const char *uri = strchr(*p, ' ');
		const char *from = uri ? strchr(uri + 1, ' ') : NULL;
		const char *components = from ? strchr(from + 1, ' ') : NULL;
		const char *rest =
			components ? suite_rest(from + 1, (size_t)(components - from - 1), release)
				   : NULL;

		if (rest)
			(void)!buf_printf(out, "%.*s %s%s%s\n", (int)(from - *p), *p, suite, rest,
			                  components);
	}
}

char *plan_sources(const struct builds_config *c, const char *suite)
{
	static const char *const moving[] = {"stable", "oldstable", "testing"};
	auto_call(buf_done) struct buf out = BUF_INIT(16 * LINE_MAX_BYTES);

	append_sources(c, suite, suite, &out);
	if (out.len == 0 && c->codename)
		append_sources(c, c->codename, suite, &out);
	for (size_t i = 0; out.len == 0 && i < ARRAY_SIZE(moving); i++)
		append_sources(c, moving[i], suite, &out);
	if (out.len > 0)
		buf_truncate(&out, out.len - 1);
	return xstrdup(buf_str(&out));
}

static char *join(const json_t *list)
{
	auto_call(buf_done) struct buf out = BUF_INIT(RECIPE_BYTES_MAX);
	size_t i;
	json_t *item;

	json_array_foreach(list, i, item)(void) !buf_printf(&out, "%s%s", i ? " " : "",
	                                                    json_string_value(item));
	return xstrdup(buf_str(&out));
}

/* "NAME VERSION HASH" for each, in the order of their names. */
static char *npm_lines(const struct build *b)
{
	auto_json json_t *npm = recipe_npm(b->recipe, ARCH);
	auto_call(buf_done) struct buf out = BUF_INIT(4 * RECIPE_BYTES_MAX);
	const char *name;
	json_t *integrity;

	json_object_foreach (npm, name, integrity) {
		const char *at = strrchr(name, '@');
		unsigned char hash[66];

		/* "sha512-" and 88 characters: the recipe's reader has looked */
		if (base64_decode(json_string_value(integrity) + 7, 88, hash) != 64)
			continue;
		(void)!buf_printf(&out, "%s%.*s %s ", out.len ? "\n" : "", (int)(at - name), name,
		                  at + 1);
		for (size_t i = 0; i < 64; i++)
			(void)!buf_printf(&out, "%02x", hash[i]);
	}
	return xstrdup(buf_str(&out));
}

/* "BASE64 PATH" for each. */
static char *file_lines(json_t *files)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4 * RECIPE_BYTES_MAX);
	const char *path;
	json_t *content;

	json_object_foreach (files, path, content) {
		const char *text = json_string_value(content);
		auto_free char *coded = xcalloc(1, base64_size(strlen(text)));

		(void)base64_encode(text, strlen(text), coded);
		(void)!buf_printf(&out, "%s%s %s", out.len ? "\n" : "", coded[0] ? coded : "=",
		                  path);
	}
	return xstrdup(buf_str(&out));
}

static void set(json_t *env, const char *name, char *value) /* takes value */
{
	(void)json_object_set_new(env, name, json_string(value));
	free(value);
}

static void set_number(json_t *env, const char *name, uint64_t value)
{
	set(env, name, xasprintf("%llu", (unsigned long long)value));
}

json_t *plan_env(const struct build *b, enum step step)
{
	const struct builds_config *c = &b->owner->config;
	json_t *env = json_object();

	if (step < STEP_CONTEXT && steps[step].is_on_host)
		set(env, "SOURCES", plan_sources(c, b->suite));
	if (step == STEP_BOOTSTRAP || step == STEP_REGISTRIES || step == STEP_KERNEL)
		set(env, "ARCH", xstrdup(ARCH));
	if (step == STEP_KERNEL)
		set(env, "KERNELS", join(json_object_get(b->recipe, "kernel")));
	if (step == STEP_REGISTRIES)
		set(env, "WANTED", xstrdup(unknown_registries(b)));
	if (step == STEP_PACKAGES) { /* a set adds no user */
		const char *user = build_is_set(b)
		                           ? NULL
		                           : json_string_value(json_object_get(b->recipe, "user"));

		set(env, "PACKAGES", join(json_object_get(b->recipe, "packages")));
		set(env, "TEMPLATE_USER", xstrdup(user ? user : "user"));
	}
	if (step == STEP_EXTRAS) {
		set(env, "NPM", npm_lines(b));
		set(env, "NPM_PACKAGES", join(json_object_get(b->recipe, "npm_packages")));
		set(env, "NPM_REGISTRY", xstrdup(npm_registry(b)));
		set(env, "PIP_INDEX", xstrdup(pip_index(b)));
		set(env, "FILES", file_lines(json_object_get(b->recipe, "files")));
	}
	if (step == STEP_PART)
		set(env, "FILES", file_lines(part_files(b)));
	if (step == STEP_PART || step == STEP_CONTEXT)
		part_put_env(b, step, env);
	if (plan_is_sealed(step) && (step == STEP_PART || !plan_is_on_host(b, step))) {
		set(env, "PIP", join(json_object_get(b->recipe, "pip")));
		set(env, "WARM", join(json_object_get(b->recipe, "warm_modules")));
		if (step != STEP_PART) /* a Dockerfile's is the day of its build */
			set_number(env, "DATE", b->archive_date);
		set_number(env, "IS_LAST", plan_is_last(b, step));
	}
	return env;
}

json_t *plan_argv(const struct build *b, enum step step)
{
	json_t *argv = json_pack("[sss]", "/bin/sh", "-c", "");
	const char *const words = step == STEP_CHECKS ? "checks" : "run";
	auto_free char *script =
		xasprintf("%s\n%s\n%s", steps[step].before, steps[step].script, steps[step].behind);

	(void)json_array_set_new(argv, 2, json_string(script));
	json_array_append_new(argv, json_string(step_name(step)));
	if (step == STEP_EXTRAS || step == STEP_CHECKS)
		(void)json_array_extend(argv, json_object_get(b->recipe, words));
	if (step == STEP_CONTEXT || step == STEP_CARRY || step == STEP_PART) {
		auto_json json_t *more = part_words(b, step);

		(void)json_array_extend(argv, more);
	}
	return argv;
}

/* Files that a client has sent are known by what it has said of them (build/parcel.h), and what
 * builds of the project have left in caches by nobody. */
static bool is_projects_own(const struct build *b, enum step step)
{
	auto_json json_t *fills = step == STEP_PART ? part_fills(b, step) : NULL;

	return has_items(b, "parcels") || json_array_size(fills) > 0 ||
	       (step == STEP_PART && json_array_size(part_caches(b)) > 0);
}

/* Hashes the exact arguments and variables of the step. What comes out of parcels and caches
 * holds in its own project only. */
void plan_key(const struct build *b, enum step step, char key[PLAN_KEY_SIZE])
{
	auto_json json_t *all = json_object();
	auto_free char *text = NULL;
	char image[DIGEST_HEX];
	struct digest hash;

	digest_to_hex(&b->image, image);
	(void)json_object_set_new(all, "argv", plan_argv(b, step));
	(void)json_object_set_new(all, "env", plan_env(b, step));
	(void)json_object_set_new(all, "image", json_string(image));
	(void)json_object_set_new(all, "state", json_string(b->archive_state));
	if (is_projects_own(b, step))
		(void)json_object_set_new(all, "project", json_string(b->project_id));
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	if (!text || EVP_Digest(text, strlen(text), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, key);
}

json_t *plan_manifest(const struct build *b)
{
	static const char *const fields[] = {"summary", "env",        "user",
	                                     "cwd",     "entrypoint", "warm_modules",
	                                     "kernel",  "cmd",        "config"};
	json_t *manifest = json_pack("{ss}", "arch", ARCH);

	if (b->suite[0])
		(void)json_object_set_new(manifest, "suite", json_string(b->suite));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (json_object_get(b->recipe, fields[i]))
			(void)json_object_set(manifest, fields[i],
			                      json_object_get(b->recipe, fields[i]));
	if (build_is_set(b)) {
		json_t *set_of = json_deep_copy(json_object_get(b->recipe, "set"));

		(void)json_object_set_new(set_of, "build_id", json_string(b->id));
		(void)json_object_set_new(manifest, "set", set_of);
	}
	(void)json_object_set(manifest, "packages", b->packages);
	(void)json_object_set(manifest, "languages", b->languages);
	(void)json_object_set(manifest, "recipe", b->recipe);
	(void)json_object_set_new(manifest, "sealed",
	                          image_sealed_json(b->archive_date, /* is_small= */ false));
	return manifest;
}
