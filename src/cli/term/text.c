// SPDX-License-Identifier: Apache-2.0
#include "cli/term/text.h"

#include "base/parse.h"
#include "cli/term/colour.h"
#include "cli/term/exit_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ESCAPED_MAX (1024 * 1024)

static uint32_t decode(const unsigned char *p, size_t len)
{
	if (len == 1)
		return p[0];
	if (len == 2)
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	if (len == 3)
		return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
	       (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* Characters that change how the ones around them are shown, or cannot be seen at all. */
static bool is_deceptive(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x0000, 0x001f}, {0x007f, 0x009f}, /* C0, DEL, C1: they drive the terminal */
		{0x00ad, 0x00ad}, {0x061c, 0x061c},   {0x200b, 0x200f},
		{0x2028, 0x202e}, /* zero width, line ends, bidi overrides */
		{0x2060, 0x206f}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
		{0xfff9, 0xfffb}, {0xe0000, 0xe0fff}, /* tags */
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

static int append_char(struct buf *out, const char *p, size_t len, bool keeps_lines)
{
	uint32_t c = decode((const unsigned char *)p, len);

	if (keeps_lines && (c == '\n' || c == '\t'))
		return buf_append(out, p, len);
	if (c == '\n')
		return buf_append_str(out, "\\n");
	if (c == '\t')
		return buf_append_str(out, "\\t");
	if (c == '\r')
		return buf_append_str(out, "\\r");
	if (c < 0x80 && is_deceptive(c))
		return buf_printf(out, "\\x%02x", (unsigned)c);
	if (is_deceptive(c))
		return buf_printf(out, "\\u{%x}", (unsigned)c);
	return buf_append(out, p, len);
}

/* The length of the valid character at p, or 0. */
static size_t char_length(const char *p, size_t len)
{
	for (size_t n = 1; n <= 4 && n <= len; n++)
		if (utf8_is_valid(p, n))
			return n;
	return 0;
}

static void escape(struct buf *out, const char *s, size_t len, bool keeps_lines)
{
	int r = 0;

	/* Past the cap of out the rest is left away: it is for eyes only. */
	for (size_t at = 0; at < len && r == 0;) {
		size_t n = char_length(s + at, len - at);

		if (n == 0)
			r = buf_printf(out, "\\x%02x", (unsigned)(unsigned char)s[at]);
		else
			r = append_char(out, s + at, n, keeps_lines);
		at += n ? n : 1;
	}
}

void text_escape(struct buf *out, const char *s, size_t len)
{
	escape(out, s, len, /* keeps_lines= */ false);
}

void text_escape_lines(struct buf *out, const char *s, size_t len)
{
	escape(out, s, len, /* keeps_lines= */ true);
}

char *text_escaped(const char *s)
{
	struct buf b = BUF_INIT(ESCAPED_MAX);
	char *copy;

	text_escape(&b, s, strlen(s));
	copy = xstrdup(buf_str(&b));
	buf_done(&b);
	return copy;
}

size_t text_width(const char *s)
{
	size_t width = 0;

	for (; *s; s++)
		width += ((unsigned char)*s & 0xc0) != 0x80;
	return width;
}

void text_age(uint64_t us, char text[16])
{
	uint64_t s = us / 1000000;

	if (s < 120)
		(void)snprintf(text, 16, "%" PRIu64 " s", s);
	else if (s < 120 * 60)
		(void)snprintf(text, 16, "%" PRIu64 " min", s / 60);
	else if (s < 48 * 3600)
		(void)snprintf(text, 16, "%" PRIu64 " h", s / 3600);
	else
		(void)snprintf(text, 16, "%" PRIu64 " d", s / 86400 % 1000000);
}

void text_bytes(uint64_t bytes, char text[16])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	(void)snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void table_add(struct table *t, const char *cell)
{
	t->cells = xrealloc(t->cells, (t->n_cells + 1) * sizeof(*t->cells));
	t->cells[t->n_cells++] = text_escaped(cell && *cell ? cell : "-");
}

static void print_cell(const char *cell, size_t width, bool is_last)
{
	if (is_last)
		printf("%s\n", cell);
	else
		printf("%s%*s", cell, (int)(width - text_width(cell) + 2), "");
}

void table_print(const struct table *t)
{
	auto_free size_t *widths = xcalloc(t->n_columns, sizeof(*widths));

	for (size_t c = 0; c < t->n_columns; c++)
		widths[c] = text_width(t->heads[c]);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t width = text_width(t->cells[i]);

		widths[i % t->n_columns] = MAX(widths[i % t->n_columns], width);
	}
	(void)fputs(colour(stdout, COLOUR_BOLD), stdout);
	for (size_t c = 0; c < t->n_columns; c++)
		print_cell(t->heads[c], widths[c], c + 1 == t->n_columns);
	(void)fputs(colour(stdout, COLOUR_NONE), stdout);
	for (size_t i = 0; i < t->n_cells; i++)
		print_cell(t->cells[i], widths[i % t->n_columns],
		           i % t->n_columns + 1 == t->n_columns);
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->n_cells = 0;
}

int text_fail(const struct err *err)
{
	auto_free char *message = text_escaped(err->message);
	auto_free char *hint = text_escaped(err->hint);

	(void)fflush(stdout); /* keep the order when both go to one place */
	(void)fprintf(stderr, "%scloche:%s %s\n", colour(stderr, COLOUR_BAD),
	              colour(stderr, COLOUR_NONE), message);
	if (*hint)
		(void)fprintf(stderr, "  %shint:%s %s\n", colour(stderr, COLOUR_DIM),
		              colour(stderr, COLOUR_NONE), hint);
	return EXIT_CLOCHE;
}
