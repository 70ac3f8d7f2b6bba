// SPDX-License-Identifier: Apache-2.0
/* The bodies of code calls and of contexts. */
#include "api/frame/body.h"

#include "proto/start.h"

#include <string.h>

#define PATH_BYTES_MAX (START_PATH_MAX - 1)
#define WORD_BYTES_MAX 64

static int check_busy(const char *on_busy, bool *ret_refuses, struct err *err)
{
	if (on_busy && strcmp(on_busy, "queue") != 0 && strcmp(on_busy, "refuse") != 0)
		return err_field(err, "on_busy", "must be one of queue, refuse");
	*ret_refuses = on_busy && strcmp(on_busy, "refuse") == 0;
	return 0;
}

int body_read_code(const json_t *body, struct code_spec *ret, struct err *err)
{
	struct code_spec b = {};
	const char *on_busy = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"code",       JSON_FIELD_STRING, &b.code, /* required= */ true, .max = CODE_BYTES_MAX},
		{"language",   JSON_FIELD_STRING, &b.language, .max = WORD_BYTES_MAX},
		{"context",    JSON_FIELD_STRING, &b.context, .min = 1, .max = WORD_BYTES_MAX},
		{"timeout_ms", JSON_FIELD_U64,    &b.timeout_ms, .max = TIMEOUT_MS_MAX},
		{"on_busy",    JSON_FIELD_STRING, &on_busy},
		{"cwd",        JSON_FIELD_STRING, &b.cwd, .min = 1, .max = PATH_BYTES_MAX},
		{"env",        JSON_FIELD_OBJECT, &b.env},
		{"kill_on_disconnect", JSON_FIELD_BOOL, &b.ends_with_caller},
	};
	/* clang-format on */
	int r;

	if (!body)
		return err_field(err, "code", "is required");
	r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = check_busy(on_busy, &b.refuses_busy, err);
	if (r == 0 && b.env)
		r = body_check_env(b.env, "env", err);
	if (r == 0)
		*ret = b;
	return r;
}

int body_read_context(const json_t *body, struct context_spec *ret, struct err *err)
{
	struct context_spec spec = {.language = "python"};
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",     JSON_FIELD_STRING, &spec.name,     .min = 1, .max = CONTEXT_NAME_MAX},
		{"language", JSON_FIELD_STRING, &spec.language, .max = WORD_BYTES_MAX},
		{"cwd",      JSON_FIELD_STRING, &spec.cwd,      .min = 1, .max = PATH_BYTES_MAX},
		{"user",     JSON_FIELD_STRING, &spec.user,     .min = 1, .max = USER_BYTES_MAX},
		{"env",      JSON_FIELD_OBJECT, &spec.env},
	};
	/* clang-format on */
	int r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err) : 0;

	if (r == 0)
		r = body_check_user(spec.user, "user", err);
	if (r == 0 && spec.env)
		r = body_check_env(spec.env, "env", err);
	if (r == 0)
		*ret = spec;
	return r;
}
