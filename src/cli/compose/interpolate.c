// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/interpolate.h"

#include "base/buf.h"
#include "base/json/json.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define DEPTH_MAX 8

struct expansion {
	const json_t *variables;
	struct buf out;
	unsigned depth;
};

static int expand(struct expansion *x, const char *text, size_t len, struct err *err);

static int put(struct expansion *x, const char *text, size_t len, struct err *err)
{
	if (buf_append(&x->out, text, len) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "its value is too long");
	return 0;
}

static bool begins_name(char c)
{
	return c == '_' || isalpha((unsigned char)c);
}

static size_t name_len(const char *text, const char *end)
{
	size_t n = 0;

	while (text + n < end && (begins_name(text[n]) || (n && isdigit((unsigned char)text[n]))))
		n++;
	return n;
}

static const char *value_of(const struct expansion *x, const char *name, size_t len)
{
	auto_free char *copy = xstrndup(name, len);

	return json_string_value(json_object_get(x->variables, copy));
}

/* Behind "${": where its '}' is, with those inside counted; NULL: nowhere. */
static const char *find_close(const char *text, const char *end)
{
	unsigned depth = 1;

	for (; text < end; text++) {
		if (text + 1 < end && text[0] == '$' && text[1] == '{')
			depth++, text++;
		else if (*text == '}' && --depth == 0)
			return text;
	}
	return NULL;
}

/* "X", "X:-text", … between the braces. */
static int expand_braces(struct expansion *x, const char *text, const char *end, struct err *err)
{
	const size_t n = name_len(text, end);
	const char *value = value_of(x, text, n), *rest = text + n;
	bool counts_empty = rest < end && *rest == ':', is_there;
	char how;

	if (n == 0)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "'${%.*s}' has no name of a variable; a dollar is written $$",
		               (int)MIN(end - text, 40), text);
	if (rest == end)
		return value ? put(x, value, strlen(value), err) : 0;
	rest += counts_empty;
	how = '\0';
	if (rest < end)
		how = *rest++;
	is_there = value && (!counts_empty || *value);
	if (how == '-')
		return is_there ? put(x, value, strlen(value), err)
		                : expand(x, rest, (size_t)(end - rest), err);
	if (how == '+')
		return is_there ? expand(x, rest, (size_t)(end - rest), err) : 0;
	if (how != '?')
		return err_set(
			err, ERR_INVALID_FIELD, 0,
			"'${%.*s}' cannot be read: behind the name there may be :-, -, :?, ?, "
			":+ or +",
			(int)MIN(end - text, 40), text);
	if (is_there)
		return put(x, value, strlen(value), err);
	return err_set(err, ERR_INVALID_FIELD, 0, "the variable %.*s is needed%s%.*s", (int)n, text,
	               rest < end ? ": " : "", (int)MIN(end - rest, 120), rest);
}

static int expand_dollar(struct expansion *x, const char **at, const char *end, struct err *err)
{
	const char *text = *at + 1, *close;
	size_t n = name_len(text, end);

	if (text < end && *text == '$') {
		*at = text + 1;
		return put(x, "$", 1, err);
	}
	if (n > 0) {
		const char *value = value_of(x, text, n);

		*at = text + n;
		return value ? put(x, value, strlen(value), err) : 0;
	}
	if (text == end || *text != '{') /* as a shell leaves it */
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "a '$' that begins no variable is written $$");
	close = find_close(text + 1, end);
	if (!close)
		return err_set(err, ERR_INVALID_FIELD, 0, "'${' has no '}'");
	*at = close + 1;
	return expand_braces(x, text + 1, close, err);
}

static int expand(struct expansion *x, const char *text, size_t len, struct err *err)
{
	const char *end = text + len;
	int r = 0;

	if (++x->depth > DEPTH_MAX)
		return err_set(err, ERR_INVALID_FIELD, 0, "its variables are nested too deeply");
	while (r == 0 && text < end) {
		const char *dollar = memchr(text, '$', (size_t)(end - text));
		const char *until = dollar ? dollar : end;

		r = put(x, text, (size_t)(until - text), err);
		text = until;
		if (r == 0 && dollar)
			r = expand_dollar(x, &text, end, err);
	}
	x->depth--;
	return r;
}

int interpolate(const char *text, const json_t *variables, char **ret, struct err *err)
{
	struct expansion x = {.variables = variables, .out = BUF_INIT(INTERPOLATED_MAX)};
	int r = expand(&x, text, strlen(text), err);

	if (r == 0)
		*ret = xstrdup(buf_str(&x.out));
	buf_done(&x.out);
	return r;
}

static char escaped(char c)
{
	static const char from[] = "nrt", to[] = "\n\r\t";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : c;
}

/* What is between quotes, which is put where it was; NULL: there is no end. *ret_rest is behind it.
 */
static char *take_quoted(char *text, char **ret_rest)
{
	const char quote = *text;
	char *to = text, *from = text + 1;

	while (*from && *from != quote) {
		if (quote == '"' && *from == '\\' && from[1]) {
			/* The dollar of "\$" goes through as two, which mean one. */
			if (from[1] == '$')
				*to++ = '$';
			*to++ = escaped(from[1]);
			from += 2;
		} else {
			*to++ = *from++;
		}
	}
	if (!*from)
		return NULL;
	*ret_rest = from + 1;
	*to = '\0';
	return text;
}

static char *skip_blank(char *text)
{
	return text + strspn(text, " \t");
}

/* Behind the '='. *ret_rest: the next line. */
static int take_value(char *text, const json_t *variables, char **ret_value, char **ret_rest,
                      struct err *err)
{
	char *rest = NULL, *end;
	bool is_single = *text == '\'';

	if (is_single || *text == '"') {
		text = take_quoted(text, &rest);
		if (!text)
			return err_set(err, ERR_INVALID_FIELD, 0, "a quote is not closed");
		rest = skip_blank(rest);
		if (*rest && *rest != '\n' && *rest != '#')
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "there is more behind the quotes");
		rest += strcspn(rest, "\n");
		*ret_rest = *rest ? rest + 1 : rest;
	} else {
		rest = text + strcspn(text, "\n");
		*ret_rest = *rest ? rest + 1 : rest;
		*rest = '\0';
		for (end = text; *end; end++)
			if (*end == '#' && end > text && isspace((unsigned char)end[-1]))
				*end-- = '\0';
		end = text + strlen(text);
		while (end > text && isspace((unsigned char)end[-1]))
			*--end = '\0';
	}
	if (is_single) {
		*ret_value = xstrdup(text);
		return 0;
	}
	return interpolate(text, variables, ret_value, err);
}

static int take_line(char *text, const json_t *variables, json_t *ret, char **ret_rest,
                     struct err *err)
{
	auto_free char *name = NULL, *value = NULL;
	size_t n;
	int r = 0;

	text = skip_blank(text);
	if (strncmp(text, "export ", 7) == 0)
		text = skip_blank(text + 7);
	n = name_len(text, text + strlen(text));
	name = xstrndup(text, n);
	text = skip_blank(text + n);
	if (*text == '#' || *text == '\n' || *text == '\0' || *text == '\r') {
		const char *own = json_string_value(json_object_get(variables, name));

		if (n == 0 || own)
			value = own ? xstrdup(own) : NULL;
		text += strcspn(text, "\n");
		*ret_rest = *text ? text + 1 : text;
	} else if (n == 0 || *text != '=') {
		return err_set(err, ERR_INVALID_FIELD, 0, "this is no NAME=VALUE");
	} else {
		r = take_value(skip_blank(text + 1), variables, &value, ret_rest, err);
	}
	if (r == 0 && n > 0 && value && json_object_set_new(ret, name, json_string(value)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "the value is not valid UTF-8");
	return r;
}

int interpolate_file(const char *name, char *text, const json_t *variables, json_t *ret,
                     struct err *err)
{
	auto_json json_t *known = json_copy(unconst(variables));
	unsigned line = 1;

	while (*text) {
		char *rest = text;
		unsigned lines = 0;
		int r;

		for (const char *c = text; *c; c++) /* take_line() writes over it */
			lines += *c == '\n';
		r = take_line(text, known, ret, &rest, err);
		if (r < 0) {
			auto_free char *place = xasprintf("%s:%u", name, line);

			return err_prefix(err, "%s", place);
		}
		(void)json_object_update(known, ret);
		for (const char *c = rest; *c; c++)
			lines -= *c == '\n';
		line += lines;
		text = rest;
	}
	return 0;
}
