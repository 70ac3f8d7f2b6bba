// SPDX-License-Identifier: Apache-2.0
#include "base/text/toml.h"

#include "base/buf.h"
#include "base/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX    64   /* a part of a section's name, or a key */
#define SECTION_MAX 256  /* with its dots */
#define STRING_MAX  4096 /* on one line: the longest are paths */
#define LINES_MAX   (256 * 1024)

struct parser {
	const char *at, *end;
	unsigned line;
	char section[SECTION_MAX];
	struct err *err;
};

/* Strings of one value, in one allocation each; an array has many. */
struct value {
	enum toml_kind kind;
	char *items[TOML_ITEMS_MAX];
	size_t n_items;
};

static void value_done(struct value *v)
{
	for (size_t i = 0; i < v->n_items; i++)
		free(v->items[i]);
}

#define fail(p, ...) err_set((p)->err, ERR_INVALID_FIELD, 0, __VA_ARGS__)

static bool at_end(const struct parser *p)
{
	return p->at >= p->end;
}

static char peek(const struct parser *p)
{
	return at_end(p) ? '\0' : *p->at;
}

static void skip_blanks(struct parser *p)
{
	while (peek(p) == ' ' || peek(p) == '\t')
		p->at++;
}

static void skip_comment(struct parser *p)
{
	if (peek(p) == '#')
		while (!at_end(p) && *p->at != '\n')
			p->at++;
}

/* The rest of a line may hold a comment and nothing else. */
static int end_line(struct parser *p)
{
	skip_blanks(p);
	skip_comment(p);
	if (peek(p) == '\r')
		p->at++;
	if (at_end(p))
		return 0;
	if (*p->at != '\n')
		return fail(p, "what follows the value is not understood");
	p->at++;
	p->line++;
	return 0;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int read_word(struct parser *p, char word[WORD_MAX])
{
	size_t len = 0;

	while (is_word(peek(p))) {
		if (len == WORD_MAX - 1)
			return fail(p, "a name has more than %d letters", WORD_MAX - 1);
		word[len++] = *p->at++;
	}
	word[len] = '\0';
	return len > 0 ? 0 : fail(p, "a key is missing: write key = value");
}

static int read_escape(struct parser *p, char *ret)
{
	static const char from[] = "\"\\nt", to[] = "\"\\\n\t";
	char c = peek(p);
	const char *found = c ? strchr(from, c) : NULL;

	if (!found)
		return fail(p, "this escape is not understood; \\\\ \\\" \\n and \\t are");
	*ret = to[found - from];
	p->at++;
	return 0;
}

static int read_string(struct parser *p, char **ret)
{
	char text[STRING_MAX];
	size_t len = 0;
	char quote = *p->at++;

	for (;;) {
		char c = peek(p);

		if (c == '\0' || c == '\n')
			return fail(p, "a string does not end on its line");
		p->at++;
		if (c == quote)
			break;
		if (c == '\\' && quote == '"') {
			int r = read_escape(p, &c);

			if (r < 0)
				return r;
		} else if ((unsigned char)c < 0x20 && c != '\t') {
			return fail(p, "a control byte in a string");
		}
		if (len == sizeof(text) - 1)
			return fail(p, "a string has more than %zu bytes", sizeof(text) - 1);
		text[len++] = c;
	}
	*ret = xstrndup(text, len);
	return 0;
}

/* Behind the opening quotes. A line end right there is no part of the text. */
static int read_lines(struct parser *p, char quote, struct buf *out)
{
	const char three[] = {quote, quote, quote};

	if (peek(p) == '\r' && p->end - p->at > 1 && p->at[1] == '\n')
		p->at++;
	if (peek(p) == '\n') {
		p->at++;
		p->line++;
	}
	while ((size_t)(p->end - p->at) >= sizeof(three) &&
	       memcmp(p->at, three, sizeof(three)) != 0) {
		char c = *p->at++;

		if (c == '\\' && quote == '"') {
			int r = read_escape(p, &c);

			if (r < 0)
				return r;
		} else if (c == '\n') {
			p->line++;
		} else if ((unsigned char)c < 0x20 && c != '\t' && c != '\r') {
			return fail(p, "a control byte in a string");
		}
		if (buf_append(out, &c, 1) < 0)
			return fail(p, "a string has more than %d bytes", LINES_MAX);
	}
	if ((size_t)(p->end - p->at) < sizeof(three))
		return fail(p, "a string of several lines does not end");
	p->at += sizeof(three);
	return 0;
}

static int read_long_string(struct parser *p, char **ret)
{
	struct buf text = BUF_INIT(LINES_MAX);
	unsigned line = p->line;
	char quote = *p->at;
	int r;

	p->at += 3;
	r = read_lines(p, quote, &text);
	if (r == 0)
		*ret = xstrndup(buf_str(&text), text.len);
	else
		p->line = line; /* report the line where it begins */
	buf_done(&text);
	return r;
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

static bool is_long_quote(const struct parser *p)
{
	return p->end - p->at >= 3 && is_quote(p->at[0]) && p->at[1] == p->at[0] &&
	       p->at[2] == p->at[0];
}

/* A bare word, or anything in quotes: a path, say. */
static int read_key(struct parser *p, char **ret)
{
	char word[WORD_MAX];
	int r;

	if (is_quote(peek(p)))
		return read_string(p, ret);
	r = read_word(p, word);
	if (r == 0)
		*ret = xstrdup(word);
	return r;
}

static int add_string(struct parser *p, struct value *v)
{
	int r;

	if (!is_quote(peek(p)))
		return fail(p, "a string in quotes was expected");
	if (v->n_items == TOML_ITEMS_MAX)
		return fail(p, "an array has more than %d strings", TOML_ITEMS_MAX);
	r = is_long_quote(p) ? read_long_string(p, &v->items[v->n_items])
	                     : read_string(p, &v->items[v->n_items]);
	if (r == 0)
		v->n_items++;
	return r;
}

/* Blanks, comments and line ends between the parts of an array. */
static int skip_space(struct parser *p)
{
	for (;;) {
		skip_blanks(p);
		if (peek(p) != '#' && peek(p) != '\n' && peek(p) != '\r')
			return 0;
		int r = end_line(p);

		if (r < 0)
			return r;
	}
}

static int read_array(struct parser *p, struct value *v)
{
	int r;

	p->at++;
	for (;;) {
		r = skip_space(p);
		if (r < 0)
			return r;
		if (peek(p) == ']')
			break;
		r = add_string(p, v);
		if (r == 0)
			r = skip_space(p);
		if (r < 0)
			return r;
		if (peek(p) == ',')
			p->at++;
		else if (peek(p) != ']')
			return fail(p, "',' or ']' was expected in an array");
	}
	p->at++;
	return 0;
}

static int read_bare(struct parser *p, struct value *v)
{
	const char *start = p->at;

	while (is_word(peek(p)) || peek(p) == '.')
		p->at++;
	if (p->at == start)
		return fail(p, "a value was expected");
	if (p->at - start > WORD_MAX)
		return fail(p, "a value has more than %d letters and no quotes", WORD_MAX);
	v->items[v->n_items++] = xstrndup(start, (size_t)(p->at - start));
	return 0;
}

static int read_value(struct parser *p, struct value *v)
{
	switch (peek(p)) {
	case '"':
	case '\'':
		v->kind = TOML_STRING;
		return add_string(p, v);
	case '[':
		v->kind = TOML_ARRAY;
		return read_array(p, v);
	default:
		v->kind = TOML_BARE;
		return read_bare(p, v);
	}
}

static int read_section(struct parser *p, toml_fn fn, void *arg)
{
	struct toml_entry entry = {
		.section = p->section, .key = "", .kind = TOML_SECTION, .line = p->line};
	size_t len = 0;

	do {
		char word[WORD_MAX];
		int r;

		p->at++;
		if (peek(p) == '[')
			return fail(p, "[[…]] is not known here: write [SECTION.NAME], such as "
			               "[case.first]");
		skip_blanks(p);
		r = read_word(p, word);
		if (r < 0)
			return r;
		if (len + strlen(word) + 2 > sizeof(p->section))
			return fail(p, "a section's name is too long");
		len += (size_t)snprintf(p->section + len, sizeof(p->section) - len, "%s%s",
		                        len ? "." : "", word);
		skip_blanks(p);
	} while (peek(p) == '.');
	if (peek(p) != ']')
		return fail(p, "']' was expected after the section's name");
	p->at++;
	return fn(&entry, arg, p->err);
}

static int read_entry(struct parser *p, toml_fn fn, void *arg)
{
	auto_call(value_done) struct value v = {0};
	struct toml_entry entry = {.section = p->section};
	auto_free char *key = NULL;
	unsigned line = p->line;
	int r = read_key(p, &key);

	if (r < 0)
		return r;
	skip_blanks(p);
	if (peek(p) != '=')
		return fail(p, "'=' was expected after '%s'", key);
	p->at++;
	skip_blanks(p);
	r = read_value(p, &v);
	if (r < 0)
		return r;
	entry.key = key;
	entry.kind = v.kind;
	entry.text = v.kind == TOML_ARRAY ? NULL : v.items[0];
	entry.items = (const char *const *)v.items;
	entry.n_items = v.n_items;
	entry.line = line;
	r = fn(&entry, arg, p->err);
	if (r < 0)
		p->line = line; /* report the key's line */
	return r;
}

static int read_line(struct parser *p, toml_fn fn, void *arg)
{
	int r = 0;

	skip_blanks(p);
	if (peek(p) == '[')
		r = read_section(p, fn, arg);
	else if (is_word(peek(p)) || is_quote(peek(p)))
		r = read_entry(p, fn, arg);
	return r < 0 ? r : end_line(p);
}

int toml_parse(const char *name, const char *text, size_t len, toml_fn fn, void *arg,
               struct err *err)
{
	struct err local = {0};
	struct parser p = {.at = text, .end = text + len, .line = 1, .err = err ? err : &local};
	int r = 0;

	if (memchr(text, '\0', len) || !utf8_is_valid(text, len))
		return err_set(err, ERR_INVALID_FIELD, 0, "%s: not a text in UTF-8", name);
	while (!at_end(&p)) {
		r = read_line(&p, fn, arg);
		if (r < 0)
			return err_prefix(p.err, "%s:%u", name, p.line);
	}
	return 0;
}
