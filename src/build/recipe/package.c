// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/package.h"

#include "build/recipe/word.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND_LEN 4 /* "pip:" */

/* clang-format off */
static const struct {
	const char *name, *language;
	bool (*is_right)(const char *s);
	const char *wanted;
} kinds[] = {
	[PACKAGE_PIP] = {"pip", "python",     word_is_requirement, "a requirement of pip's such as \"pandas\" or \"numpy==2.3.4\""},
	[PACKAGE_NPM] = {"npm", "javascript", word_is_npm_wish,    "a package of npm's such as \"zod\", \"zod@^3\" or \"@scope/name\""},
	[PACKAGE_APT] = {"apt", NULL,         word_is_package,     "Debian's name of a package such as \"jq\""},
};
/* clang-format on */
static_assert(ARRAY_SIZE(kinds) == PACKAGE_KIND_COUNT, "a kind has no row");

const char *package_kind_name(enum package_kind kind)
{
	return kinds[kind].name;
}

const char *package_kind_language(enum package_kind kind)
{
	return kinds[kind].language;
}

enum package_kind package_kind_of(const char *language, const json_t *has)
{
	if (language && strcmp(language, "python") == 0)
		return PACKAGE_PIP;
	if (language)
		return strstr(language, "script") ? PACKAGE_NPM : PACKAGE_APT;
	if (json_object_size(has) == 0 || json_object_get(has, "python"))
		return PACKAGE_PIP;
	return json_object_get(has, "javascript") ? PACKAGE_NPM : PACKAGE_APT;
}

/* Cuts off a prefix such as "pip:"; without one it is of the bare kind. */
static const char *split(const char *word, enum package_kind bare, enum package_kind *ret)
{
	*ret = bare;
	for (enum package_kind k = 0; k < PACKAGE_KIND_COUNT; k++) {
		size_t len = strlen(kinds[k].name);

		if (strncmp(word, kinds[k].name, len) == 0 && word[len] == ':') {
			*ret = k;
			return word + len + 1;
		}
	}
	return word;
}

/* For pip "Foo_bar" is "foo-bar"; extras and versions after the name stay as they are. */
static void fold_pip_name(char *name)
{
	for (; *name && !strchr("[=<>!~", *name); name++)
		*name = *name == '_' || *name == '.' ? '-' : (char)tolower((unsigned char)*name);
}

static int read_word(const json_t *item, size_t i, enum package_kind bare, char **ret,
                     struct err *err)
{
	const char *word = json_string_value(item), *name;
	enum package_kind kind;

	if (!word || strlen(word) != json_string_length(item))
		return err_field(err, "packages", "item %zu must be a string without NUL", i);
	name = split(word, bare, &kind);
	if (strlen(name) > PACKAGE_LEN_MAX - KIND_LEN || !kinds[kind].is_right(name))
		return err_field(err, "packages", "item %zu: '%.64s' is not %s", i, word,
		                 kinds[kind].wanted);
	*ret = xasprintf("%s:%s", kinds[kind].name, name);
	if (kind == PACKAGE_PIP)
		fold_pip_name(*ret + strlen("pip:"));
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static json_t *sorted(char **words, size_t n)
{
	json_t *all = json_array();

	qsort(words, n, sizeof(*words), compare);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(words[i], words[i - 1]) != 0)
			json_array_append_new(all, json_string(words[i]));
	return all;
}

int package_read(const json_t *list, enum package_kind bare, json_t **ret, struct err *err)
{
	char *words[PACKAGES_MAX];
	size_t n = json_array_size(list), done = 0;
	int r = 0;

	if (n > PACKAGES_MAX)
		return err_field(err, "packages", "has %zu items, %d are allowed", n, PACKAGES_MAX);
	for (; done < n && r == 0; done += r == 0)
		r = read_word(json_array_get(list, done), done, bare, &words[done], err);
	if (r == 0)
		*ret = sorted(words, n);
	for (size_t i = 0; i < done; i++)
		free(words[i]);
	return r;
}

json_t *package_select(const json_t *words, enum package_kind kind)
{
	json_t *names = json_array();
	enum package_kind own;
	size_t i;
	json_t *word;

	json_array_foreach(words, i, word)
	{
		const char *name = split(json_string_value(word), kind, &own);

		if (own == kind)
			json_array_append_new(names, json_string(name));
	}
	return names;
}
