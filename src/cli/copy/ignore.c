// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/ignore.h"

#include "base/auto.h"

#include <string.h>

#define STEPS_MAX 100000 /* of one match: patterns with many '*' could take for ever */

struct pattern {
	char *text;
	bool is_exception;
};

struct ignore {
	struct pattern *items;
	size_t n;
};

/* A class "[…]" at p; whether c is in it. *ret_end is behind the ']', or NULL if there is none. */
static bool in_class(const char *p, char c, const char **ret_end)
{
	bool is_negated = p[1] == '^' || p[1] == '!', is_in = false;
	const char *at = p + 1 + is_negated;

	*ret_end = NULL;
	for (const char *start = at; *at && (*at != ']' || at == start); at++) {
		char low = *at == '\\' && at[1] ? *++at : *at, high = low;

		if (at[1] == '-' && at[2] && at[2] != ']') {
			at += 2;
			high = *at == '\\' && at[1] ? *++at : *at;
		}
		is_in = is_in || (c >= low && c <= high);
	}
	if (*at == ']')
		*ret_end = at + 1;
	return is_in != is_negated;
}

/* Whether the pattern matches the first len bytes of the path. */
static bool matches(const char *p, const char *path, const char *end, unsigned *steps)
{
	for (; *p; p++) {
		const char *behind;

		if (++*steps > STEPS_MAX)
			return false;
		if (p[0] == '*' && p[1] == '*') {
			const char *rest = p + 2 + (p[2] == '/');

			for (const char *at = path; at <= end; at++)
				if ((p[2] != '/' || at == path || at[-1] == '/') &&
				    matches(rest, at, end, steps))
					return true;
			return false;
		}
		if (*p == '*') {
			for (const char *at = path; at <= end; at++) {
				if (matches(p + 1, at, end, steps))
					return true;
				if (at == end || *at == '/')
					return false;
			}
			return false;
		}
		if (path == end)
			return false;
		if (*p == '[' && *path != '/') {
			bool is_in = in_class(p, *path, &behind);

			if (!behind || !is_in)
				return false;
			p = behind - 1;
		} else if (*p == '?') {
			if (*path == '/')
				return false;
		} else {
			if (*p == '\\' && p[1])
				p++;
			if (*p != *path)
				return false;
		}
		path++;
	}
	return path == end;
}

/* The path itself, or a directory that it is in. */
static bool pattern_has(const struct pattern *p, const char *path)
{
	unsigned steps = 0;

	for (const char *end = path;; end++) {
		if (*end != '/' && *end)
			continue;
		if (matches(p->text, path, end, &steps))
			return true;
		if (!*end)
			return false;
	}
}

/* "./a//b/" and "/a/b" as "a/b"; the caller frees. */
static char *clean(const char *text, size_t len)
{
	char *out = xcalloc(1, len + 1);
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		size_t end = i;

		while (end < len && text[end] != '/')
			end++;
		if (end - i == 2 && text[i] == '.' && text[i + 1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (end > i && !(end - i == 1 && text[i] == '.')) {
			if (n > 0)
				out[n++] = '/';
			memcpy(out + n, text + i, end - i);
			n += end - i;
		}
		i = end + 1;
	}
	out[n] = '\0';
	return out;
}

static void add_line(struct ignore *g, const char *line, size_t len)
{
	struct pattern p = {0};

	while (len > 0 && strchr(" \t\r", line[len - 1]))
		len--;
	while (len > 0 && strchr(" \t", *line))
		line++, len--;
	if (len == 0 || *line == '#')
		return;
	p.is_exception = *line == '!';
	p.text = clean(line + p.is_exception, len - p.is_exception);
	if (!*p.text) {
		free(p.text);
		return;
	}
	g->items = xrealloc(g->items, (g->n + 1) * sizeof(*g->items));
	g->items[g->n++] = p;
}

struct ignore *ignore_new(const char *text, size_t len)
{
	struct ignore *g = xnew0(struct ignore);
	const char *end = text + len;

	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));

		add_line(g, line, (size_t)((stop ? stop : end) - line));
		line = stop ? stop + 1 : end;
	}
	return g;
}

void ignore_free(struct ignore *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++)
		free(g->items[i].text);
	free(g->items);
	free(g);
}

bool ignore_has(const struct ignore *g, const char *path)
{
	bool is_left_out = false;

	for (size_t i = 0; g && i < g->n; i++)
		if (g->items[i].is_exception == is_left_out && pattern_has(&g->items[i], path))
			is_left_out = !is_left_out;
	return is_left_out;
}

bool ignore_has_exceptions(const struct ignore *g)
{
	for (size_t i = 0; g && i < g->n; i++)
		if (g->items[i].is_exception)
			return true;
	return false;
}
