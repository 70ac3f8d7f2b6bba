// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/code/code.h"

#include <ctype.h>
#include <string.h>

#define CODE_MAX (512 * 1024)

enum words { WORDS_NONE, WORDS_PYTHON, WORDS_JAVASCRIPT, WORDS_BASH };

static enum words words_of(const char *language)
{
	if (strcmp(language, "python") == 0)
		return WORDS_PYTHON;
	if (strcmp(language, "bash") == 0)
		return WORDS_BASH;
	return strstr(language, "script") ? WORDS_JAVASCRIPT : WORDS_NONE;
}

static bool is_name(const char *text)
{
	if (!isalpha((unsigned char)*text) && *text != '_')
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && *text != '_')
			return false;
	return true;
}

/* ASCII JSON strings are also valid in Python and JavaScript. */
static int put_literal(struct buf *out, const char *text)
{
	json_t *value = json_string(text);
	char *literal = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	int r = literal ? buf_append_str(out, literal) : -EINVAL;

	free(literal);
	json_decref(value);
	return r;
}

static int put_bash(struct buf *out, const char *text)
{
	int r = buf_append_str(out, "'");

	for (; r == 0 && *text; text++)
		r = *text == '\'' ? buf_append_str(out, "'\\''") : buf_append(out, text, 1);
	return r == 0 ? buf_append_str(out, "'") : r;
}

/* value NULL: unsets it. */
static int put_one(struct buf *out, enum words words, const char *name, const char *value)
{
	int r;

	switch (words) {
	case WORDS_PYTHON:
		r = buf_append_str(out, value ? "__import__('os').environ.__setitem__("
		                              : "__import__('os').environ.pop(");
		if (r == 0)
			r = put_literal(out, name);
		if (r == 0)
			r = buf_append_str(out, ", ");
		if (r == 0)
			r = value ? put_literal(out, value) : buf_append_str(out, "None");
		return r == 0 ? buf_append_str(out, ")\n") : r;
	case WORDS_JAVASCRIPT:
		r = buf_append_str(out, value ? "process.env[" : "delete process.env[");
		if (r == 0)
			r = put_literal(out, name);
		if (r == 0 && value)
			r = buf_append_str(out, "] = ");
		if (r == 0)
			r = value ? put_literal(out, value) : buf_append_str(out, "]");
		return r == 0 ? buf_append_str(out, ";\n") : r;
	case WORDS_BASH:
		r = buf_printf(out, value ? "export %s=" : "unset -v %s", name);
		if (r == 0 && value)
			r = put_bash(out, value);
		return r == 0 ? buf_append_str(out, "\n") : r;
	case WORDS_NONE:
		break;
	}
	return -EINVAL;
}

static char *write_all(const char *language, const json_t *env, const json_t *values)
{
	auto_call(buf_done) struct buf out = BUF_INIT(CODE_MAX);
	enum words words = words_of(language);
	const char *name;
	json_t *unused;
	int r = words == WORDS_NONE ? -EINVAL : 0;

	json_object_foreach ((json_t *)unconst(env), name, unused) {
		if (r == 0 && is_name(name))
			r = put_one(&out, words, name,
			            json_string_value(json_object_get(values, name)));
	}
	return r == 0 ? xstrdup(buf_str(&out)) : NULL;
}

char *run_env_set(const char *language, const json_t *env)
{
	return write_all(language, env, env);
}

char *run_env_unset(const char *language, const json_t *env, const json_t *of_sandbox)
{
	return write_all(language, env, of_sandbox);
}
