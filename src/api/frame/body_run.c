// SPDX-License-Identifier: Apache-2.0
/* The body of /v1/run: a sandbox, files, and an exec or a code call, in one. */
#include "api/frame/body.h"

#include "base/parse.h"
#include "proto/start.h"
#include "sandbox/code/language.h"
#include "sandbox/lifecycle/results.h"

#include <stdio.h>
#include <string.h>

void run_body_done(struct run_body *b)
{
	exec_body_done(&b->exec);
	for (size_t i = 0; i < b->n_files; i++)
		free(b->files[i].data);
	free(b->files);
	*b = (struct run_body){};
}

static int read_file(const json_t *object, size_t i, struct run_file *ret, struct err *err)
{
	const char *path = NULL, *text = NULL, *base64 = NULL, *mode = NULL;
	const struct json_field fields[] = {
		{"path", JSON_FIELD_STRING, &path, /* required= */ true, .min = 1,
	         .max = START_PATH_MAX - 1},
		{"text", JSON_FIELD_STRING, &text, .max = STDIN_BYTES_MAX},
		{"base64", JSON_FIELD_STRING, &base64, .max = base64_size(STDIN_BYTES_MAX) - 1},
		{"mode", JSON_FIELD_STRING, &mode},
	};
	char prefix[32], field[48];
	int r;

	(void)snprintf(prefix, sizeof(prefix), "files[%zu]", i);
	if (!json_is_object(object))
		return err_field(err, prefix, "must be an object");
	(void)snprintf(prefix, sizeof(prefix), "files[%zu].", i);
	r = json_read(object, prefix, fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	(void)snprintf(field, sizeof(field), "%sbase64", prefix);
	if (!text && !base64)
		return err_field(err, field, "exactly one of text and base64 must be given");
	if (mode) {
		char mode_field[48];

		(void)snprintf(mode_field, sizeof(mode_field), "%smode", prefix);
		r = body_file_mode(mode, mode_field, &ret->mode, err);
		if (r < 0)
			return r;
		ret->has_mode = true;
	}
	ret->path = path;
	return body_take_bytes(text, base64, field, &ret->data, &ret->len, err);
}

static int read_files(const json_t *array, struct run_body *b, struct err *err)
{
	size_t n = json_array_size(array);

	b->files = xnew0n(struct run_file, n);
	for (size_t i = 0; i < n; i++) {
		int r = read_file(json_array_get(array, i), i, &b->files[i], err);

		if (r < 0)
			return r;
		b->n_files++;
	}
	return 0;
}

static int check_command(const struct exec_spec *spec, struct err *err)
{
	if (!spec->argv)
		return 0;
	if (json_string_length(json_array_get(spec->argv, 0)) == 0)
		return err_field(err, "argv", "item 0 must be a program, not empty");
	return body_check_strings(spec->argv, "argv", ARGV_BYTES_MAX, err);
}

/* Which of the three it is, and that what goes with another was left out. */
static int check_kind(struct run_body *b, struct err *err)
{
	const struct exec_spec *spec = &b->exec.spec;
	const char *code = b->code.code;
	const struct language *language;
	int r = 0;

	if (!!spec->shell + !!spec->argv + !!code != 1)
		return err_field(err, code ? "code" : "command",
		                 "exactly one of command, argv and code must be given");
	if (!code && b->code.language)
		return err_field(err, "language", "goes with code only");
	if (!code)
		return check_command(spec, err);
	if (b->exec.input)
		return err_field(err, "stdin", "goes with command and argv only");
	if (b->code.language)
		r = language_check(b->code.language, "language", &language, err);
	if (r == 0 && b->code.language)
		b->code.language = language->name;
	return r;
}

static int read_run(const json_t *body, struct run_body *b, struct err *err)
{
	struct sandbox_fields f;
	struct exec_spec *spec = &b->exec.spec;
	const char *text = NULL, *base64 = NULL;
	json_t *files = NULL;
	/* clang-format off */
	const struct json_field own[] = {
		{"command",      JSON_FIELD_STRING, &spec->shell, .min = 1},
		{"argv",         JSON_FIELD_ARRAY,  &spec->argv,  .min = 1, .max = START_ARGS_MAX},
		{"code",         JSON_FIELD_STRING, &b->code.code, .max = CODE_BYTES_MAX},
		{"language",     JSON_FIELD_STRING, &b->code.language},
		{"files",        JSON_FIELD_ARRAY,  &files,       .max = RUN_FILES_MAX},
		{"cwd",          JSON_FIELD_STRING, &spec->cwd,   .min = 1, .max = START_PATH_MAX - 1},
		{"user",         JSON_FIELD_STRING, &spec->user,  .min = 1, .max = 64},
		{"stdin",        JSON_FIELD_STRING, &text,        .max = STDIN_BYTES_MAX},
		{"stdin_base64", JSON_FIELD_STRING, &base64,      .max = base64_size(STDIN_BYTES_MAX) - 1},
		{"timeout_ms",   JSON_FIELD_U64,    &spec->timeout_ms, .max = TIMEOUT_MS_MAX},
		{"results",      JSON_FIELD_ARRAY,  &b->sandbox.results, .max = RESULTS_MAX},
	};
	/* clang-format on */
	struct json_field rows[ARRAY_SIZE(own) + SANDBOX_FIELDS];
	int r;

	sandbox_fields_init(&f, &b->sandbox);
	memcpy(rows, own, sizeof(own));
	memcpy(rows + ARRAY_SIZE(own), f.rows, sizeof(f.rows));
	r = json_read(body, "", rows, ARRAY_SIZE(rows), err);
	if (r == 0)
		r = sandbox_fields_check(&f, &b->sandbox, err);
	if (r == 0)
		r = results_check(b->sandbox.results, false, err);
	if (r == 0)
		r = body_take_bytes(text, base64, "stdin_base64", &b->exec.input,
		                    &b->exec.input_len, err);
	if (r == 0)
		r = body_check_user(spec->user, "user", err);
	if (r == 0)
		r = read_files(files, b, err);
	if (r == 0)
		r = check_kind(b, err);
	b->sandbox.language = b->code.code ? b->code.language : NULL;
	spec->has_stdin = b->exec.closes_stdin = b->exec.input;
	b->code.cwd = spec->cwd;
	b->code.user = spec->user;
	b->code.timeout_ms = spec->timeout_ms;
	return r;
}

int body_read_run(const json_t *body, struct run_body *ret, struct err *err)
{
	struct run_body b = {};
	int r;

	if (!body)
		return err_field(err, "command",
		                 "exactly one of command, argv and code must be given");
	r = read_run(body, &b, err);
	if (r < 0) {
		run_body_done(&b);
		return r;
	}
	*ret = b;
	return 0;
}
