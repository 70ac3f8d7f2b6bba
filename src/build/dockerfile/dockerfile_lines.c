// SPDX-License-Identifier: Apache-2.0
/*
 * One instruction is one line that may be continued: its last character is then the escape. Between
 * the lines of one, comments and empty lines do not count. A here-document follows the line that
 * names it; its lines are taken as they are, up to one that has only its name.
 */
#include "build/dockerfile/dockerfile_lines.h"

#include "base/buf.h"
#include "base/text/nearest.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_LEN_MAX 64

static const char *const names[] = {
	[DOCKER_ADD] = "ADD",
	[DOCKER_ARG] = "ARG",
	[DOCKER_CMD] = "CMD",
	[DOCKER_COPY] = "COPY",
	[DOCKER_ENTRYPOINT] = "ENTRYPOINT",
	[DOCKER_ENV] = "ENV",
	[DOCKER_EXPOSE] = "EXPOSE",
	[DOCKER_FROM] = "FROM",
	[DOCKER_HEALTHCHECK] = "HEALTHCHECK",
	[DOCKER_LABEL] = "LABEL",
	[DOCKER_MAINTAINER] = "MAINTAINER",
	[DOCKER_ONBUILD] = "ONBUILD",
	[DOCKER_RUN] = "RUN",
	[DOCKER_SHELL] = "SHELL",
	[DOCKER_STOPSIGNAL] = "STOPSIGNAL",
	[DOCKER_USER] = "USER",
	[DOCKER_VOLUME] = "VOLUME",
	[DOCKER_WORKDIR] = "WORKDIR",
};
static_assert(ARRAY_SIZE(names) == DOCKER_KIND_COUNT, "an instruction has no name");

/* Where the reader is. */
struct lines {
	const char *at, *end;
	unsigned line; /* of at, from 1 */
	struct dockerfile *into;
	struct err *err;
};

/* A line without its end. */
struct line {
	const char *text;
	size_t len;
};

const char *instruction_name(enum instruction_kind kind)
{
	return names[kind];
}

int dockerfile_error(struct err *err, unsigned line, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return err_field(err, "dockerfile", "line %u: %s", line, text);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool next_line(struct lines *l, struct line *ret)
{
	const char *end;

	if (l->at == l->end)
		return false;
	end = memchr(l->at, '\n', (size_t)(l->end - l->at));
	ret->text = l->at;
	ret->len = (size_t)((end ? end : l->end) - l->at);
	if (ret->len > 0 && ret->text[ret->len - 1] == '\r')
		ret->len--;
	l->at = end ? end + 1 : l->end;
	l->line++;
	return true;
}

static void skip_blanks(struct line *line)
{
	while (line->len > 0 && is_blank(*line->text)) {
		line->text++;
		line->len--;
	}
}

static void cut_blanks(struct line *line)
{
	while (line->len > 0 && is_blank(line->text[line->len - 1]))
		line->len--;
}

/* The value of "# NAME = VALUE", or false. */
static bool read_directive(struct line line, const char *name, struct line *ret)
{
	skip_blanks(&line);
	if (line.len == 0 || *line.text != '#')
		return false;
	line.text++, line.len--;
	skip_blanks(&line);
	if (line.len < strlen(name) || strncasecmp(line.text, name, strlen(name)) != 0)
		return false;
	line.text += strlen(name), line.len -= strlen(name);
	skip_blanks(&line);
	if (line.len == 0 || *line.text != '=')
		return false;
	line.text++, line.len--;
	skip_blanks(&line);
	cut_blanks(&line);
	*ret = line;
	return true;
}

/* Directives stand before all else, and each line must be one. */
static int read_directives(struct lines *l)
{
	for (;;) {
		struct lines before = *l;
		struct line line, value;

		if (!next_line(l, &line))
			return 0;
		if (read_directive(line, "escape", &value)) {
			if (value.len != 1 || (*value.text != '\\' && *value.text != '`'))
				return dockerfile_error(l->err, before.line,
				                        "escape must be '\\' or '`'");
			l->into->escape = *value.text;
		} else if (!read_directive(line, "syntax", &value) &&
		           !read_directive(line, "check", &value)) {
			*l = before;
			return 0;
		}
	}
}

/* Adds a line to an instruction; whether it goes on. */
static bool add_line(struct lines *l, struct line line, struct buf *text)
{
	struct line cut = line;

	cut_blanks(&cut);
	if (cut.len == 0 || cut.text[cut.len - 1] != l->into->escape) {
		(void)!buf_append(text, line.text, line.len);
		return false;
	}
	(void)!buf_append(text, cut.text, cut.len - 1);
	return true;
}

/* The rest of an instruction whose first line is there. */
static void read_rest(struct lines *l, struct line first, struct buf *text)
{
	bool goes_on = add_line(l, first, text);
	struct line line;

	while (goes_on && next_line(l, &line)) {
		struct line bare = line;

		skip_blanks(&bare);
		if (bare.len > 0 && *bare.text != '#')
			goes_on = add_line(l, line, text);
	}
}

/* "<<NAME" and its like at the beginning of a word; how long it is, or 0. */
static size_t read_mark(const char *word, struct heredoc *ret)
{
	const char *c = word;
	const char *name;
	char quote = 0;

	while (isdigit((unsigned char)*c))
		c++;
	if (c[0] != '<' || c[1] != '<')
		return 0;
	c += 2;
	ret->strips_tabs = *c == '-';
	c += ret->strips_tabs;
	if (*c == '\'' || *c == '"')
		quote = *c++;
	name = c;
	if (!isalpha((unsigned char)*c) && *c != '_')
		return 0;
	while (isalnum((unsigned char)*c) || *c == '_')
		c++;
	if (c - name > NAME_LEN_MAX || (quote && *c != quote))
		return 0;
	ret->is_quoted = quote != 0;
	ret->name = xstrndup(name, (size_t)(c - name));
	return (size_t)(c + (quote != 0) - word);
}

/* Finds the here-documents that the line names: at the beginning of words, outside of quotes. */
static int find_heredocs(struct lines *l, struct instruction *in)
{
	bool is_start = true;
	char quote = 0;

	for (const char *c = in->text; *c; c++) {
		struct heredoc doc = {0};
		size_t len = is_start && !quote ? read_mark(c, &doc) : 0;

		if (len > 0 && in->n_heredocs == HEREDOCS_MAX) {
			free(doc.name);
			return dockerfile_error(l->err, in->line,
			                        "an instruction has at most %d here-documents",
			                        HEREDOCS_MAX);
		}
		if (len > 0) {
			in->heredocs[in->n_heredocs++] = doc;
			c += len - 1;
		} else if (quote) {
			quote = *c == quote ? 0 : quote;
		} else if (*c == '\'' || *c == '"') {
			quote = *c;
		} else if (*c == l->into->escape && c[1]) {
			c++;
		}
		is_start = is_blank(*c) || strchr(";&|(", *c);
	}
	return 0;
}

static bool ends_heredoc(const struct heredoc *doc, struct line line)
{
	while (doc->strips_tabs && line.len > 0 && *line.text == '\t')
		line.text++, line.len--;
	return line.len == strlen(doc->name) && memcmp(line.text, doc->name, line.len) == 0;
}

static int read_heredoc(struct lines *l, const struct instruction *in, struct heredoc *doc)
{
	auto_call(buf_done) struct buf body = BUF_INIT(DOCKERFILE_BYTES_MAX + 1);
	struct line line;

	while (next_line(l, &line)) {
		if (ends_heredoc(doc, line)) {
			doc->body = xstrdup(buf_str(&body));
			return 0;
		}
		while (doc->strips_tabs && line.len > 0 && *line.text == '\t')
			line.text++, line.len--;
		(void)!buf_append(&body, line.text, line.len);
		(void)!buf_append(&body, "\n", 1);
	}
	return dockerfile_error(l->err, in->line, "the here-document '%s' has no end", doc->name);
}

static int find_kind(struct lines *l, const char *word, size_t len, struct instruction *in)
{
	struct nearest near;
	auto_free char *upper = xstrndup(word, MIN(len, (size_t)NAME_LEN_MAX));

	for (char *c = upper; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	nearest_init(&near, upper, strlen(upper));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], upper) == 0) {
			in->kind = (enum instruction_kind)i;
			return 0;
		}
		nearest_try(&near, names[i]);
	}
	(void)dockerfile_error(l->err, in->line, "there is no instruction '%s'", upper);
	return nearest_hint(&near, l->err);
}

static struct instruction *add_instruction(struct dockerfile *d)
{
	d->items = xrealloc(d->items, (d->n + 1) * sizeof(*d->items));
	d->items[d->n] = (struct instruction){0};
	return &d->items[d->n++];
}

static int read_instruction(struct lines *l, struct line first, unsigned number)
{
	auto_call(buf_done) struct buf text = BUF_INIT(DOCKERFILE_BYTES_MAX + 1);
	struct instruction *in;
	const char *c;
	size_t len;
	int r;

	if (l->into->n == INSTRUCTIONS_MAX)
		return dockerfile_error(l->err, number, "there are more than %d instructions",
		                        INSTRUCTIONS_MAX);
	read_rest(l, first, &text);
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		buf_truncate(&text, text.len - 1);
	in = add_instruction(l->into);
	in->line = number;
	c = buf_str(&text);
	len = strcspn(c, " \t");
	r = find_kind(l, c, len, in);
	c += len;
	in->text = xstrdup(c + strspn(c, " \t"));
	if (r == 0 && *in->text == '\0')
		r = dockerfile_error(l->err, number, "%s needs something behind it",
		                     names[in->kind]);
	if (r == 0 && (in->kind == DOCKER_RUN || in->kind == DOCKER_COPY || in->kind == DOCKER_ADD))
		r = find_heredocs(l, in);
	for (size_t i = 0; r == 0 && i < in->n_heredocs; i++)
		r = read_heredoc(l, in, &in->heredocs[i]);
	return r;
}

int dockerfile_parse(const char *text, size_t len, struct dockerfile *ret, struct err *err)
{
	struct lines l = {.at = text, .end = text + len, .line = 1, .into = ret, .err = err};
	struct line line;
	int r;

	*ret = (struct dockerfile){.escape = '\\'};
	if (len > DOCKERFILE_BYTES_MAX)
		return err_set(err, ERR_TOO_LARGE, 0, "a Dockerfile has at most %d bytes",
		               DOCKERFILE_BYTES_MAX);
	if (memchr(text, '\0', len))
		return err_field(err, "dockerfile", "has a byte that is no text");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		l.at += 3;
	r = read_directives(&l);
	while (r == 0) {
		unsigned number = l.line;

		if (!next_line(&l, &line))
			break;
		skip_blanks(&line);
		if (line.len > 0 && *line.text != '#')
			r = read_instruction(&l, line, number);
	}
	if (r == 0 && ret->n == 0)
		r = err_field(err, "dockerfile", "has no instruction");
	return r;
}

void dockerfile_done(struct dockerfile *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct instruction *in = &d->items[i];

		for (size_t k = 0; k < in->n_heredocs; k++) {
			free(in->heredocs[k].name);
			free(in->heredocs[k].body);
		}
		free(in->text);
	}
	free(d->items);
	*d = (struct dockerfile){0};
}
