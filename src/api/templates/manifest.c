// SPDX-License-Identifier: Apache-2.0
/*
 * Checks a manifest that came with an image. Everything in it is a stranger's: what is read later,
 * by creates and by builds that start from the image, has to have the type that they expect.
 */
#include "api/frame/body.h"
#include "api/templates/templates.h"

#include <string.h>

#define USER_MAX   64
#define CWD_MAX    1024
#define WORDS_MAX  1024         /* of a list */
#define CONFIG_MAX (256 * 1024) /* bytes of all of `config` */

static int check_words(const json_t *object, const char *field, struct err *err)
{
	const json_t *words = json_object_get(object, field), *word;
	size_t i;

	if (!words)
		return 0;
	if (!json_is_array(words) || json_array_size(words) > WORDS_MAX)
		return err_field(err, field, "must be a list of at most %d words", WORDS_MAX);
	json_array_foreach(words, i, word)
	{
		if (!json_is_string(word))
			return err_field(err, field, "must be a list of texts");
	}
	return 0;
}

/* "USER" or "USER:GROUP". */
static int check_user(const char *user, struct err *err)
{
	const char *colon = user ? strchr(user, ':') : NULL;
	auto_free char *name = colon ? xstrndup(user, (size_t)(colon - user)) : NULL;
	int r = body_check_user(colon ? name : user, "user", err);

	return r == 0 && colon ? body_check_user(colon + 1, "user", err) : r;
}

static int check_texts(const json_t *config, const char *field, struct err *err)
{
	const json_t *object = json_object_get(config, field);
	const char *name;
	json_t *value;

	if (object && !json_is_object(object))
		return err_field(err, field, "must be an object of texts");
	json_object_foreach ((json_t *)unconst(object), name, value) {
		if (!json_is_string(value))
			return err_field(err, field, "'%.64s' must be a text", name);
	}
	return 0;
}

static int check_healthcheck(const json_t *check, struct err *err)
{
	const char *name;
	json_t *value;

	if (!check)
		return 0;
	if (!json_is_object(check))
		return err_field(err, "healthcheck", "must be an object");
	json_object_foreach ((json_t *)unconst(check), name, value) {
		if (strcmp(name, "test") != 0 && !json_is_string(value))
			return err_field(err, "healthcheck", "'%.64s' must be a text", name);
	}
	return check_words(check, "test", err);
}

/* What a Dockerfile says besides. */
static int check_config(const json_t *config, struct err *err)
{
	static const char *const lists[] = {"exposed_ports", "volumes", "shell", "onbuild"};
	const json_t *shell = json_object_get(config, "shell");
	const json_t *signal = json_object_get(config, "stop_signal");
	int r;

	if (!config)
		return 0;
	if (!json_is_object(config))
		return err_field(err, "config", "must be an object");
	if (json_dumpb(config, NULL, 0, JSON_COMPACT) > CONFIG_MAX)
		return err_field(err, "config", "has more than %d KiB", CONFIG_MAX / 1024);
	if (signal && !json_is_string(signal))
		return err_field(err, "stop_signal", "must be a text");
	if (shell && json_array_size(shell) == 0)
		return err_field(err, "shell", "must have a word");
	r = check_texts(config, "labels", err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
		r = check_words(config, lists[i], err);
	return r == 0 ? check_healthcheck(json_object_get(config, "healthcheck"), err) : r;
}

int check_manifest(const json_t *manifest, struct err *err)
{
	const json_t *env = json_object_get(manifest, "env");
	const json_t *user = json_object_get(manifest, "user");
	const json_t *cwd = json_object_get(manifest, "cwd");
	int r = 0;

	if (env && !json_is_object(env))
		return err_field(err, "env", "must be an object");
	if ((user && !json_is_string(user)) || json_string_length(user) > USER_MAX)
		return err_field(err, "user", "must be a text of at most %d bytes", USER_MAX);
	if ((cwd && !json_is_string(cwd)) || json_string_length(cwd) > CWD_MAX)
		return err_field(err, "cwd", "must be a text of at most %d bytes", CWD_MAX);
	if (env)
		r = body_check_env(env, "env", err);
	if (r == 0)
		r = check_user(json_string_value(user), err);
	if (r == 0)
		r = check_words(manifest, "entrypoint", err);
	if (r == 0)
		r = check_words(manifest, "cmd", err);
	return r == 0 ? check_config(json_object_get(manifest, "config"), err) : r;
}
