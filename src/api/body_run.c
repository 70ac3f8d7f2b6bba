// SPDX-License-Identifier: Apache-2.0
/*
 * The body of /v1/run: a sandbox, an exec and files in one. Code becomes an argv: short code is an
 * argument of its interpreter, long code (a word has at most 128 KiB) becomes one more file, and
 * the interpreter is given its path.
 */
#include "api/body.h"

#include "base/parse.h"
#include "proto/start.h"

#include <stdio.h>
#include <string.h>

#define CODE_BYTES_MAX (1024 * 1024)
#define ARGS_MAX       1024

static const struct language {
	const char *name, *program, *flag;
	const char *own_name; /* what stands for the script's name before its arguments, or NULL */
	const char *file;
} languages[] = {
	{"python", "python3", "-c", NULL, "/tmp/.cloche-run.py"},
	{"javascript", "node", "-e", "[eval]", "/tmp/.cloche-run.js"},
	{"bash", "bash", "-c", "bash", "/tmp/.cloche-run.sh"},
};

static const struct language *language_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

void run_body_done(struct run_body *b)
{
	exec_body_done(&b->exec);
	json_decref(b->argv);
	for (size_t i = 0; i < b->n_files; i++)
		free(b->files[i].data);
	free(b->files);
	*b = (struct run_body){};
}

static void push(json_t *array, const char *word)
{
	if (json_array_append_new(array, json_string(word)) < 0)
		abort(); /* only on no memory: word is valid UTF-8 */
}

static void make_argv(struct run_body *b, const struct language *lang, const char *code,
                      json_t *args)
{
	b->argv = json_array();
	push(b->argv, lang->program);
	if (strlen(code) <= CODE_ARG_MAX) {
		push(b->argv, lang->flag);
		push(b->argv, code);
		if (lang->own_name)
			push(b->argv, lang->own_name);
	} else {
		struct run_file *f = &b->files[b->n_files++];

		*f = (struct run_file){
			.path = lang->file, .data = xstrdup(code), .len = strlen(code)};
		push(b->argv, lang->file);
	}
	for (size_t i = 0; i < json_array_size(args); i++)
		push(b->argv, json_string_value(json_array_get(args, i)));
	b->exec.spec.argv = b->argv;
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

	b->files = xnew0n(struct run_file, n + 1); /* and room for the code */
	for (size_t i = 0; i < n; i++) {
		int r = read_file(json_array_get(array, i), i, &b->files[i], err);

		if (r < 0)
			return r;
		b->n_files++;
	}
	return 0;
}

static int check_command(struct run_body *b, const char *code, const char *language, json_t *args,
                         struct err *err)
{
	const struct exec_spec *spec = &b->exec.spec;
	const struct language *lang = language_find(language ? language : "python");
	int r;

	if (!!spec->shell + !!spec->argv + !!code != 1)
		return err_field(err, code ? "code" : "command",
		                 "exactly one of command, argv and code must be given");
	if (!code && language)
		return err_field(err, "language", "goes with code only");
	if (!code && args)
		return err_field(err, "args", "goes with code only");
	if (!lang)
		return err_field(err, "language", "must be one of python, javascript, bash");
	if (spec->argv && json_string_length(json_array_get(spec->argv, 0)) == 0)
		return err_field(err, "argv", "item 0 must be a program, not empty");
	r = body_check_strings(spec->argv ? spec->argv : args, spec->argv ? "argv" : "args",
	                       ARGV_BYTES_MAX - CODE_ARG_MAX * !!code, err);
	if (r == 0 && code)
		make_argv(b, lang, code, args);
	return r;
}

static int read_run(const json_t *body, struct run_body *b, struct err *err)
{
	struct sandbox_fields f;
	struct exec_spec *spec = &b->exec.spec;
	const char *code = NULL, *language = NULL, *text = NULL, *base64 = NULL;
	json_t *args = NULL, *files = NULL;
	/* clang-format off */
	const struct json_field own[] = {
		{"command",      JSON_FIELD_STRING, &spec->shell, .min = 1},
		{"argv",         JSON_FIELD_ARRAY,  &spec->argv,  .min = 1, .max = START_ARGS_MAX},
		{"code",         JSON_FIELD_STRING, &code,        .max = CODE_BYTES_MAX},
		{"language",     JSON_FIELD_STRING, &language},
		{"args",         JSON_FIELD_ARRAY,  &args,        .max = ARGS_MAX},
		{"files",        JSON_FIELD_ARRAY,  &files,       .max = RUN_FILES_MAX},
		{"cwd",          JSON_FIELD_STRING, &spec->cwd,   .min = 1, .max = START_PATH_MAX - 1},
		{"user",         JSON_FIELD_STRING, &spec->user,  .min = 1, .max = 64},
		{"stdin",        JSON_FIELD_STRING, &text,        .max = STDIN_BYTES_MAX},
		{"stdin_base64", JSON_FIELD_STRING, &base64,      .max = base64_size(STDIN_BYTES_MAX) - 1},
		{"timeout_ms",   JSON_FIELD_U64,    &spec->timeout_ms, .max = TIMEOUT_MS_MAX},
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
		r = body_take_bytes(text, base64, "stdin_base64", &b->exec.input,
		                    &b->exec.input_len, err);
	if (r == 0)
		r = body_check_user(spec->user, "user", err);
	if (r == 0)
		r = read_files(files, b, err);
	if (r == 0)
		r = check_command(b, code, language, args, err);
	spec->has_stdin = b->exec.closes_stdin = b->exec.input;
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
