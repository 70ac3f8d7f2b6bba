// SPDX-License-Identifier: Apache-2.0
/* The instructions of a Dockerfile that change no file: variables, and what the image says of
 * itself. */
#include "build/dockerfile/dockerfile_private.h"

#include "base/parse.h"
#include "build/recipe/word.h"

#include <ctype.h>
#include <string.h>

static json_t *config_of(struct stage *s, const char *name, json_t *(*make)(void))
{
	json_t *value = json_object_get(s->config, name);

	if (!value) {
		value = make();
		(void)json_object_set_new(s->config, name, value);
	}
	return value;
}

static size_t env_bytes(const json_t *env)
{
	size_t len = 0;
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(env), name, value)
		len += strlen(name) + json_string_length(value) + 2;
	return len;
}

int docker_read_env(struct stage *s, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	auto_json json_t *pairs = NULL;
	size_t i;
	json_t *pair;
	int r = docker_pairs(&scope, s->in->text, /* may_be_old= */ true, &pairs, err);

	json_array_foreach(pairs, i, pair)
	{
		const char *name = json_string_value(json_array_get(pair, 0));

		if (!word_is_variable(name))
			return stage_error(s, err, "ENV: '%.64s' cannot be a variable's name",
			                   name);
		(void)json_object_set(s->env, name, json_array_get(pair, 1));
	}
	if (r == 0 && env_bytes(s->env) > DOCKER_ENV_MAX)
		r = stage_error(s, err, "ENV: the variables have more than %d bytes",
		                DOCKER_ENV_MAX);
	return r;
}

int docker_take_arg(struct plan *p, const struct docker_scope *scope, const char *word,
                    json_t *into, const json_t *globals, struct err *err)
{
	const char *equals = strchr(word, '=');
	auto_free char *name = xstrndup(word, equals ? (size_t)(equals - word) : strlen(word));
	json_t *given = json_object_get(p->request->build_args, name);
	json_t *global = json_object_get(globals, name);

	if (!word_is_variable(name))
		return dockerfile_error(err, scope->line,
		                        "ARG: '%.64s' cannot be a variable's name", name);
	if (given) {
		(void)json_object_set_new(p->used_args, name, json_true());
		return json_object_set(into, name, given);
	}
	if (equals)
		return json_object_set_new(into, name, json_string(equals + 1));
	if (global)
		return json_object_set(into, name, global);
	return 0; /* declared, and not set */
}

int docker_read_arg(struct stage *s, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	auto_json json_t *words = NULL;
	size_t i;
	json_t *word;
	int r = docker_split(&scope, s->in->text, &words, err);

	json_array_foreach(words, i, word)
	{
		if (r == 0)
			r = docker_take_arg(s->plan, &scope, json_string_value(word), s->args,
			                    s->plan->globals, err);
	}
	return r;
}

int docker_read_label(struct stage *s, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	json_t *labels = config_of(s, "labels", json_object);
	auto_json json_t *pairs = NULL;
	size_t i;
	json_t *pair;
	int r = docker_pairs(&scope, s->in->text, /* may_be_old= */ true, &pairs, err);

	json_array_foreach(pairs, i, pair)(void) json_object_set(
		labels, json_string_value(json_array_get(pair, 0)), json_array_get(pair, 1));
	return r;
}

static void replace(json_t **at, json_t *value) /* takes value */
{
	json_decref(*at);
	*at = value;
}

int docker_read_command(struct stage *s, struct err *err)
{
	const bool is_cmd = s->in->kind == DOCKER_CMD;
	json_t *words = docker_json_words(s->in->text);

	if (s->in->kind == DOCKER_SHELL) {
		if (json_array_size(words) == 0) {
			json_decref(words);
			return stage_error(s, err,
			                   "SHELL needs its words as JSON: [\"/bin/sh\", \"-c\"]");
		}
		(void)json_object_set(s->config, "shell", words);
		replace(&s->shell, words);
		return 0;
	}
	if (!words) {
		words = json_copy(s->shell);
		if (json_array_append_new(words, json_string(s->in->text)) < 0) {
			json_decref(words);
			return stage_error(s, err, "is no text in UTF-8");
		}
	}
	if (is_cmd) {
		s->is_cmd_own = true;
		replace(&s->cmd, words);
		return 0;
	}
	replace(&s->entrypoint, words);
	if (!s->is_cmd_own) /* a base's command is for the base's entrypoint */
		replace(&s->cmd, NULL);
	return 0;
}

/* "80", "80/udp", "8000-8010/tcp" as they are named in an image. */
static int check_port(const struct stage *s, const char *word, char **ret, struct err *err)
{
	const char *slash = strchr(word, '/');
	auto_free char *ports = xstrndup(word, slash ? (size_t)(slash - word) : strlen(word));
	char *dash = strchr(ports, '-');
	const char *protocol = slash ? slash + 1 : "tcp";
	uint64_t first, last;

	if (dash)
		*dash = '\0';
	if (parse_u64(ports, 65535, &first) < 0 ||
	    parse_u64(dash ? dash + 1 : ports, 65535, &last) < 0 || last < first ||
	    (strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0 &&
	     strcmp(protocol, "sctp") != 0))
		return stage_error(s, err, "EXPOSE: '%.64s' is no port such as 80 or 53/udp", word);
	*ret = first == last ? xasprintf("%u/%s", (unsigned)first, protocol)
	                     : xasprintf("%u-%u/%s", (unsigned)first, (unsigned)last, protocol);
	return 0;
}

static bool is_listed(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
			return true;
	return false;
}

int docker_read_list(struct stage *s, struct err *err)
{
	const bool is_port = s->in->kind == DOCKER_EXPOSE;
	json_t *list = config_of(s, is_port ? "exposed_ports" : "volumes", json_array);
	struct docker_scope scope = stage_scope(s);
	auto_json json_t *words = is_port ? NULL : docker_json_words(s->in->text);
	size_t i;
	json_t *word;
	int r = words ? 0 : docker_split(&scope, s->in->text, &words, err);

	json_array_foreach(words, i, word)
	{
		auto_free char *port = NULL;
		const char *text = json_string_value(word);

		if (is_port && check_port(s, text, &port, err) < 0)
			return -EINVAL;
		if (!is_port && !*text)
			return stage_error(s, err, "VOLUME needs a path");
		if (!is_listed(list, port ? port : text))
			(void)json_array_append_new(list, json_string(port ? port : text));
	}
	return r;
}

static int set_user(struct stage *s, const char *user, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:";

	if (!*user || strlen(user) > 64 || *user == '-' || *user == ':' ||
	    strspn(user, letters) != strlen(user))
		return stage_error(s, err, "USER: '%.64s' must be USER or USER:GROUP", user);
	free(s->user);
	s->user = xstrdup(user);
	return 0;
}

int docker_read_word(struct stage *s, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	auto_free char *word = NULL;
	int r = docker_expand(&scope, s->in->text, &word, err);

	if (r < 0)
		return r;
	if (s->in->kind == DOCKER_USER)
		return set_user(s, word, err);
	if (s->in->kind == DOCKER_STOPSIGNAL)
		return json_object_set_new(s->config, "stop_signal", json_string(word));
	return json_object_set_new(config_of(s, "labels", json_object), "maintainer",
	                           json_string(word));
}

int docker_read_healthcheck(struct stage *s, struct err *err)
{
	static const char *const known[] = {"interval", "timeout", "start-period", "start-interval",
	                                    "retries"};
	auto_json json_t *check = json_object();
	const char *text = s->in->text;
	auto_free char *name = NULL, *value = NULL;
	json_t *words;

	while (docker_take_flag(&text, &name, &value)) {
		bool is_known = false;

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			is_known = is_known || strcmp(known[i], name) == 0;
		if (!is_known || !value)
			return stage_error(s, err, "HEALTHCHECK has no option '--%.64s'", name);
		(void)json_object_set_new(check, name, json_string(value));
		free(take_ptr(name));
		free(take_ptr(value));
	}
	if (strcasecmp(text, "none") == 0)
		return json_object_set_new(s->config, "healthcheck",
		                           json_pack("{s[s]}", "test", "NONE"));
	if (strncasecmp(text, "cmd", 3) != 0 || !text[3] || !isspace((unsigned char)text[3]))
		return stage_error(s, err, "HEALTHCHECK needs NONE, or CMD and a command");
	text += 3 + strspn(text + 3, " \t");
	words = docker_json_words(text);
	if (words)
		(void)json_array_insert_new(words, 0, json_string("CMD"));
	else
		words = json_pack("[ss]", "CMD-SHELL", text);
	(void)json_object_set_new(check, "test", words);
	return json_object_set(s->config, "healthcheck", check);
}
