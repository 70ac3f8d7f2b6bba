// SPDX-License-Identifier: Apache-2.0
/* Checks the arguments, environment and working directory of an exec, with errors that name the
 * client's fields, so that the agent will refuse nothing. */
#include "sandbox/exec/exec_private.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/network/network_env.h"
#include "sandbox/network/secret_fill.h"
#include "telemetry/span.h"

#include <string.h>

#define GRACE_US      (UINT64_C(2) * 1000000) /* between TERM and KILL when the time is up */
#define USER_MAX      64
#define TERMINAL_MAX  1000
#define ROWS          24
#define COLS          80
#define TRACE_ENV_MAX 2 /* variables that tell of a trace */

static int add_word(char **words, size_t *n, const json_t *value, size_t *bytes)
{
	const char *text = json_string_value(value);

	if (!text || strlen(text) != json_string_length(value))
		return -EINVAL;
	*bytes += strlen(text) + 1;
	words[(*n)++] = xstrdup(text);
	return 0;
}

static int build_argv(const struct exec_spec *spec, struct start *ret, size_t *bytes,
                      struct err *err)
{
	size_t count = json_array_size(spec->argv);

	if (!spec->argv == !spec->shell)
		return err_field(err, "argv", "give exactly one of argv and shell");
	if (spec->shell) {
		if (spec->shell[0] == '\0')
			return err_field(err, "shell", "must not be empty");
		ret->argv = xnew0n(char *, 4);
		ret->argv[0] = xstrdup("/bin/sh");
		ret->argv[1] = xstrdup("-c");
		ret->argv[2] = xstrdup(spec->shell);
		ret->argc = 3;
		*bytes += strlen(spec->shell) + sizeof("/bin/sh") + sizeof("-c") + 1;
		return 0;
	}
	if (!json_is_array(spec->argv) || count == 0 || count > START_ARGS_MAX)
		return err_field(err, "argv", "must have 1 to %d strings", START_ARGS_MAX);
	ret->argv = xnew0n(char *, count + 1);
	for (size_t i = 0; i < count; i++)
		if (add_word(ret->argv, &ret->argc, json_array_get(spec->argv, i), bytes) < 0)
			return err_field(err, "argv", "item %zu must be a string without NUL", i);
	if (ret->argv[0][0] == '\0')
		return err_field(err, "argv", "the program's name must not be empty");
	return 0;
}

static int add_env(const struct sandbox *s, const json_t *env, const json_t *over,
                   struct start *ret, size_t *bytes, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(env), name, value) {
		auto_free char *text = NULL;
		char *word;

		if (over && json_object_get(over, name))
			continue;
		if (secret_fill_text(s->fleet, s->project_id, json_string_value(value), NULL, "env",
		                     &text, err) < 0)
			return -EINVAL;
		word = xasprintf("%s=%s", name, text);
		explicit_bzero(text, strlen(text));
		*bytes += strlen(word) + 1;
		ret->env[ret->envc++] = word;
	}
	return 0;
}

/* What the caller set itself is left alone, and what has no room is left out. */
static void add_trace(const struct sandbox *s, const struct exec_spec *spec, struct start *ret,
                      size_t *bytes)
{
	const struct {
		const char *name, *value;
	} rows[] = {{"TRACEPARENT", spec->trace->parent}, {"TRACESTATE", spec->trace->state}};

	if (json_object_get(s->env, rows[0].name) || json_object_get(spec->env, rows[0].name))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strlen(rows[i].name) + strlen(rows[i].value) + 2;

		if (!rows[i].value[0] || ret->envc == START_ARGS_MAX ||
		    *bytes + len > START_BYTES_MAX)
			continue;
		ret->env[ret->envc++] = xasprintf("%s=%s", rows[i].name, rows[i].value);
		*bytes += len;
	}
}

static int build_env(const struct sandbox *s, const struct exec_spec *spec, struct start *ret,
                     size_t *bytes, struct err *err)
{
	size_t count = json_object_size(s->env) + json_object_size(spec->env) + NETWORK_ENV_MAX;
	size_t given;
	int r = rules_check_env(spec->env, err);

	if (r < 0)
		return r;
	if (count > START_ARGS_MAX)
		return err_field(err, "env", "has too many variables together with the sandbox's");
	ret->env = xnew0n(char *, count + TRACE_ENV_MAX + 1);
	r = add_env(s, s->env, spec->env, ret, bytes, err);
	if (r == 0 && spec->env)
		r = add_env(s, spec->env, NULL, ret, bytes, err);
	if (r < 0)
		return r;
	given = ret->envc;
	network_env_add(s, s->env, spec->env, ret);
	for (size_t i = given; i < ret->envc; i++)
		*bytes += strlen(ret->env[i]) + 1;
	if (spec->trace)
		add_trace(s, spec, ret, bytes);
	return 0;
}

static int check_place(const struct exec_spec *spec, struct err *err)
{
	if (spec->cwd && (spec->cwd[0] == '\0' || strlen(spec->cwd) > START_PATH_MAX))
		return err_field(err, "cwd", "must have 1 to %d bytes", START_PATH_MAX);
	if (spec->user && (spec->user[0] == '\0' || strlen(spec->user) > USER_MAX))
		return err_field(err, "user", "must have 1 to %d bytes", USER_MAX);
	if (spec->rows > TERMINAL_MAX || spec->cols > TERMINAL_MAX)
		return err_field(err, "pty", "may have up to %d rows and columns", TERMINAL_MAX);
	if (spec->timeout_ms > UINT64_MAX / 1000 / 2)
		return err_field(err, "timeout_ms", "is too long");
	return 0;
}

static int build(const struct sandbox *s, const struct exec_spec *spec, struct start *ret,
                 struct err *err)
{
	size_t bytes = 0;
	int r = check_place(spec, err);

	if (r < 0)
		return r;
	r = build_argv(spec, ret, &bytes, err);
	if (r < 0)
		return r;
	r = build_env(s, spec, ret, &bytes, err);
	if (r < 0)
		return r;
	if (bytes > START_BYTES_MAX)
		return err_field(err, spec->shell ? "shell" : "argv",
		                 "has %zu bytes together with the environment, %d are allowed",
		                 bytes, START_BYTES_MAX);
	return 0;
}

/* The requested value, else the template's, else NULL for the agent's default. */
static const char *first_of(const char *asked, const char *usual)
{
	if (asked)
		return asked;
	return usual ? usual : "";
}

int exec_command_build(const struct sandbox *s, const struct exec_spec *spec, const char *id,
                       struct start *ret, struct err *err)
{
	struct start start = {
		.kind = START_EXEC,
		.has_stdin = spec->has_stdin,
		.has_pty = spec->has_pty,
		.rows = spec->rows ? spec->rows : ROWS,
		.cols = spec->cols ? spec->cols : COLS,
		.timeout_us = spec->timeout_ms * 1000,
		.grace_us = GRACE_US,
	};
	int r = build(s, spec, &start, err);

	if (r < 0) {
		start_done(&start);
		return r;
	}
	start.tag = xstrdup(id);
	start.user = xstrdup(first_of(spec->user, s->user));
	start.cwd = xstrdup(first_of(spec->cwd, s->cwd));
	*ret = start;
	return 0;
}
