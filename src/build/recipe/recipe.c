// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/recipe.h"

#include "base/text/nearest.h"
#include "base/text/toml.h"
#include "build/recipe/word.h"
#include "sandbox/storage/guest_kernel.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum shape { SHAPE_STRING, SHAPE_LIST };

/* A key outside of any section. */
/* clang-format off */
static const struct field {
	const char *name;
	enum shape shape;
	bool (*is_right)(const char *s);
	const char *wanted;
} fields[] = {
	{"name",         SHAPE_STRING, word_is_name,        "a name of a-z, 0-9, '.' and '-'"},
	{"summary",      SHAPE_STRING, word_is_text,        "a text that is not empty"},
	{"from",         SHAPE_STRING, word_is_from,        "\"debian:SUITE\" or the name of a template"},
	{"kernel",       SHAPE_LIST,   word_is_package,     "Debian's name of a kernel, without the architecture"},
	{"packages",     SHAPE_LIST,   word_is_package,     "Debian's name of a package, or NAME=VERSION"},
	{"pip",          SHAPE_LIST,   word_is_requirement, "a requirement such as \"numpy==2.3.4\""},
	{"npm_packages", SHAPE_LIST,   word_is_npm_wish,    "a package of npm's such as \"zod\" or \"zod@^3\""},
	{"run",          SHAPE_LIST,   word_is_text,        "a command for the shell"},
	{"checks",       SHAPE_LIST,   word_is_text,        "a command for the shell"},
	{"user",         SHAPE_STRING, word_is_user,        "a user's name"},
	{"cwd",          SHAPE_STRING, word_is_path,        "an absolute path"},
	{"entrypoint",   SHAPE_LIST,   word_is_any,         "a word of a command"},
	{"warm_modules", SHAPE_LIST,   word_is_module,      "a Python module"},
};

/* A section with free keys, which are checked by a function. */
static const struct section {
	const char *name;
	bool (*is_key)(const char *s);
	const char *key_wanted;
	bool (*is_value)(const char *s);
	const char *value_wanted;
} sections[] = {
	{"env",       word_is_variable, "the name of a variable", word_is_any, ""},
	{"files",     word_is_path, "an absolute path outside of /dev, /proc, /sys, /tmp and /run", word_is_any, ""},
	{"npm",       word_is_npm, "a package and its version, as \"npm@11.6.2\"", word_is_integrity, "\"sha512-…\""},
	{"npm-amd64", word_is_npm, "a package and its version, as \"npm@11.6.2\"", word_is_integrity, "\"sha512-…\""},
	{"npm-arm64", word_is_npm, "a package and its version, as \"npm@11.6.2\"", word_is_integrity, "\"sha512-…\""},
};
/* clang-format on */

static int read_string(const struct field *f, const struct toml_entry *e, json_t **ret,
                       struct err *err)
{
	if (e->kind != TOML_STRING || !f->is_right(e->text))
		return err_field(err, f->name, "must be %s", f->wanted);
	*ret = json_string(e->text);
	return 0;
}

static int read_list(const struct field *f, const struct toml_entry *e, json_t **ret,
                     struct err *err)
{
	auto_json json_t *list = json_array();

	if (e->kind != TOML_ARRAY)
		return err_field(err, f->name, "must be an array of strings");
	for (size_t i = 0; i < e->n_items; i++) {
		if (!f->is_right(e->items[i]))
			return err_field(err, f->name, "'%.64s' is not %s", e->items[i], f->wanted);
		json_array_append_new(list, json_string(e->items[i]));
	}
	*ret = take_ptr(list);
	return 0;
}

/* A field may have been written as a section, and a section as a field. */
static int hint_nearest(const char *word, struct err *err)
{
	struct nearest near;

	nearest_init(&near, word, strlen(word));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		nearest_try(&near, fields[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		nearest_try(&near, sections[i].name);
	return nearest_hint(&near, err);
}

static int read_field(const struct toml_entry *e, json_t *recipe, struct err *err)
{
	json_t *value = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];

		if (strcmp(f->name, e->key) != 0)
			continue;
		if (json_object_get(recipe, f->name))
			return err_field(err, f->name, "given twice");
		r = (f->shape == SHAPE_LIST ? read_list : read_string)(f, e, &value, err);
		return r < 0 ? r : json_object_set_new(recipe, f->name, value);
	}
	(void)err_field(err, e->key, "recipes have no such field");
	return hint_nearest(e->key, err);
}

static int read_pair(const struct section *s, const struct toml_entry *e, json_t *recipe,
                     struct err *err)
{
	json_t *pairs = json_object_get(recipe, s->name);

	if (!s->is_key(e->key))
		return err_field(err, s->name, "'%.64s' is not %s", e->key, s->key_wanted);
	if (e->kind != TOML_STRING)
		return err_field(err, s->name, "'%.64s' must be a string in quotes", e->key);
	if (!s->is_value(e->text))
		return err_field(err, s->name, "'%.64s' must be %s", e->key, s->value_wanted);
	if (!pairs) {
		pairs = json_object();
		json_object_set_new(recipe, s->name, pairs);
	}
	if (json_object_get(pairs, e->key))
		return err_field(err, s->name, "'%.64s' is given twice", e->key);
	return json_object_set_new(pairs, e->key, json_string(e->text));
}

static int on_entry(const struct toml_entry *e, void *arg, struct err *err)
{
	if (e->section[0] == '\0')
		return read_field(e, arg, err);
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (strcmp(sections[i].name, e->section) == 0)
			return e->kind == TOML_SECTION ? 0 : read_pair(&sections[i], e, arg, err);
	(void)err_field(err, e->section, "recipes have no such section");
	return hint_nearest(e->section, err);
}

/* A kernel recipe has nothing but the kernel in its image, and there is one for all projects. */
static int check_kernel(const json_t *recipe, struct err *err)
{
	static const char *const allowed[] = {"name", "summary", "from", "kernel"};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		n += json_object_get(recipe, allowed[i]) != NULL;
	if (json_object_size(recipe) != n)
		return err_field(err, "kernel", "a recipe with a kernel has nothing else");
	if (!recipe_suite(recipe))
		return err_field(err, "from", "a kernel comes from a suite: \"debian:SUITE\"");
	return 0;
}

static int check_whole(const char *name, const json_t *recipe, struct err *err)
{
	static const char *const needed[] = {"name", "from"};
	const bool has_kernel = json_object_get(recipe, "kernel") != NULL;
	const char *own;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!json_object_get(recipe, needed[i]))
			return err_field(err, needed[i], "is missing in %s", name);
	own = json_string_value(json_object_get(recipe, "name"));
	if (strcmp(own, "host") == 0)
		return err_field(err, "name",
		                 "'host' is the host's own programs, which need no "
		                 "recipe");
	if (has_kernel != (strcmp(own, GUEST_KERNEL_NAME) == 0))
		return err_field(err, "name",
		                 "'" GUEST_KERNEL_NAME "' is the name of the kernel of vms");
	return has_kernel ? check_kernel(recipe, err) : 0;
}

int recipe_parse(const char *name, const char *text, size_t len, json_t **ret, struct err *err)
{
	auto_json json_t *recipe = json_object();
	int r;

	if (len > RECIPE_BYTES_MAX)
		return err_set(err, ERR_TOO_LARGE, 0, "%s: a recipe has at most %d bytes", name,
		               RECIPE_BYTES_MAX);
	r = toml_parse(name, text, len, on_entry, recipe, err);
	if (r == 0)
		r = check_whole(name, recipe, err);
	if (r < 0)
		return r;
	*ret = take_ptr(recipe);
	return 0;
}

const char *recipe_suite(const json_t *recipe)
{
	const char *from = json_string_value(json_object_get(recipe, "from"));
	const char *colon = strchr(from, ':');

	return colon ? colon + 1 : NULL;
}

json_t *recipe_npm(const json_t *recipe, const char *arch)
{
	char section[32];
	json_t *all = json_object();

	(void)snprintf(section, sizeof(section), "npm-%s", arch);
	(void)json_object_update(all, json_object_get(recipe, "npm"));
	(void)json_object_update(all, json_object_get(recipe, section));
	return all;
}

bool recipe_is_shipped(const json_t *recipe)
{
	const char *name = json_string_value(json_object_get(recipe, "name"));
	const char *text = name ? recipe_shipped(name) : NULL;
	auto_json json_t *shipped = NULL;
	struct err err;

	return text && recipe_parse(name, text, strlen(text), &shipped, &err) == 0 &&
	       json_equal(recipe, shipped);
}
