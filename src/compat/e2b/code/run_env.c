// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/code/code.h"

#include <ctype.h>
#include <string.h>

#define CODE_MAX (512 * 1024)

enum quoting { QUOTE_NONE, QUOTE_JSON, QUOTE_JSON_ASCII, QUOTE_SHELL };

/* JSON strings are also valid in Python, JavaScript and Java, where they are ASCII, and in R, which
 * takes no pairs of surrogates. Java cannot change its environment: its driver gives variables as
 * properties, too. */
/* clang-format off */
static const struct words {
	const char *language;
	enum quoting name, value;
	const char *set, *between, *set_end;
	const char *unset, *unset_end;
} languages[] = {
	{"python",     QUOTE_JSON_ASCII, QUOTE_JSON_ASCII, "__import__('os').environ.__setitem__(", ", ", ")\n",
	 "__import__('os').environ.pop(", ", None)\n"},
	{"javascript", QUOTE_JSON_ASCII, QUOTE_JSON_ASCII, "process.env[", "] = ", ";\n", "delete process.env[", "];\n"},
	{"typescript", QUOTE_JSON_ASCII, QUOTE_JSON_ASCII, "process.env[", "] = ", ";\n", "delete process.env[", "];\n"},
	{"bash",       QUOTE_NONE,       QUOTE_SHELL,      "export ", "=", "\n", "unset -v ", "\n"},
	{"r",          QUOTE_JSON,       QUOTE_JSON,       "Sys.setenv(", " = ", ")\n", "Sys.unsetenv(", ")\n"},
	{"java",       QUOTE_JSON_ASCII, QUOTE_JSON_ASCII, "System.setProperty(", ", ", ");\n", "System.clearProperty(", ");\n"},
};
/* clang-format on */

static const struct words *words_of(const char *language)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].language, language) == 0)
			return &languages[i];
	return NULL;
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

static int put_json(struct buf *out, const char *text, size_t flags)
{
	json_t *value = json_string(text);
	char *literal = json_dumps(value, JSON_ENCODE_ANY | flags);
	int r = literal ? buf_append_str(out, literal) : -EINVAL;

	free(literal);
	json_decref(value);
	return r;
}

static int put_shell(struct buf *out, const char *text)
{
	int r = buf_append_str(out, "'");

	for (; r == 0 && *text; text++)
		r = *text == '\'' ? buf_append_str(out, "'\\''") : buf_append(out, text, 1);
	return r == 0 ? buf_append_str(out, "'") : r;
}

static int put_quoted(struct buf *out, const char *text, enum quoting quoting)
{
	switch (quoting) {
	case QUOTE_JSON:
		return put_json(out, text, 0);
	case QUOTE_JSON_ASCII:
		return put_json(out, text, JSON_ENSURE_ASCII);
	case QUOTE_SHELL:
		return put_shell(out, text);
	case QUOTE_NONE:
		break;
	}
	return buf_append_str(out, text);
}

/* value NULL: unsets it. */
static int put_one(struct buf *out, const struct words *w, const char *name, const char *value)
{
	int r = buf_append_str(out, value ? w->set : w->unset);

	if (r == 0)
		r = put_quoted(out, name, w->name);
	if (r == 0 && value)
		r = buf_append_str(out, w->between);
	if (r == 0 && value)
		r = put_quoted(out, value, w->value);
	return r == 0 ? buf_append_str(out, value ? w->set_end : w->unset_end) : r;
}

static char *write_all(const char *language, const json_t *env, const json_t *values)
{
	auto_call(buf_done) struct buf out = BUF_INIT(CODE_MAX);
	const struct words *words = words_of(language);
	const char *name;
	json_t *unused;
	int r = words ? 0 : -EINVAL;

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
