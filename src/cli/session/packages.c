// SPDX-License-Identifier: Apache-2.0
#include "cli/session/packages.h"

#include "cli/frame/command.h"
#include "cli/session/build_follow.h"

#include <stdio.h>
#include <string.h>

/* The kind that a bare name is of where the language is known; else the daemon knows the template.
 */
static const char *kind_of(const char *language)
{
	static const char *const rows[][2] = {{"python", "pip:"},     {"javascript", "npm:"},
	                                      {"typescript", "npm:"}, {"bash", "apt:"},
	                                      {"r", "apt:"},          {"java", "apt:"}};

	for (size_t i = 0; language && i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i][0], language) == 0)
			return rows[i][1];
	return "";
}

static bool has_kind(const char *word)
{
	return strncmp(word, "pip:", 4) == 0 || strncmp(word, "npm:", 4) == 0 ||
	       strncmp(word, "apt:", 4) == 0;
}

int packages_to_json(const struct opt_list *packages, const char *language, json_t *body,
                     struct err *err)
{
	auto_json json_t *list = json_array();

	if (packages->n == 0)
		return 0;
	for (size_t i = 0; i < packages->n; i++) {
		const char *word = packages->items[i];
		auto_free char *whole =
			xasprintf("%s%s", has_kind(word) ? "" : kind_of(language), word);

		if (json_array_append_new(list, json_string(whole)) < 0)
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "--package: a name is not valid UTF-8");
	}
	return json_object_set(body, "packages", list);
}

int packages_prepare(struct remote *remote, const json_t *body, struct err *err)
{
	json_t *packages = json_object_get(body, "packages");
	json_t *template = json_object_get(body, "template");
	auto_free char *path = remote_path("builds");
	auto_json json_t *ask = json_object(), *build = NULL;
	struct build_follow f = {.remote = remote, .is_quiet = true};
	int r;

	if (!packages)
		return 0;
	(void)json_object_set(ask, "packages", packages);
	if (template)
		(void)json_object_set(ask, "template", template);
	r = remote_call(remote, "POST", path, ask, &build, err);
	if (r < 0 || strcmp(command_text(build, "state"), "ready") == 0)
		return r;
	r = build_follow_to_end(&f, command_text(build, "id"), err);
	if (r == 0)
		r = build_follow_error(f.build, err);
	json_decref(f.build);
	return r;
}
