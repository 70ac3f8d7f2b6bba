// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/envd/multipart.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { STATE_FIRST, STATE_BEHIND, STATE_HEAD, STATE_DATA, STATE_END };

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_BAD_REQUEST, 0, "the multipart body %s", why);
}

/* The value of a parameter ("; name=value", or quoted), unquoted into ret; 0 if there is none. */
static int read_param(const char *field, const char *name, char *ret, size_t size)
{
	size_t name_len = strlen(name), n = 0;

	for (const char *p = strchr(field, ';'); p; p = strchr(p, ';')) {
		bool is_quoted;

		p += 1 + strspn(p + 1, " \t");
		if (strncasecmp(p, name, name_len) != 0 || p[name_len] != '=')
			continue;
		p += name_len + 1;
		is_quoted = *p == '"';
		p += is_quoted;
		while (*p && (is_quoted ? *p != '"' : !strchr("; \t", *p))) {
			p += is_quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\');
			if (n + 1 >= size)
				return -ENAMETOOLONG;
			ret[n++] = *p++;
		}
		if (is_quoted && *p != '"')
			return -EINVAL;
		ret[n] = '\0';
		return 1;
	}
	return 0;
}

int multipart_init(struct multipart *m, const char *type, struct err *err)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];

	*m = (struct multipart){0};
	if (read_param(type, "boundary", boundary, sizeof(boundary)) != 1 || !boundary[0])
		return err_field(err, "Content-Type", "has no good boundary");
	(void)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s", boundary);
	m->delimiter_len = strlen(m->delimiter);
	return 0;
}

/* Browsers and clients escape these three characters in forms; this decodes them. */
static void unescape(char *name)
{
	static const struct {
		const char *text;
		char byte;
	} escapes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
	char *to = name;

	while (*name) {
		char c = *name++;

		for (size_t i = 0; c == '%' && i < ARRAY_SIZE(escapes); i++)
			if (strncasecmp(name - 1, escapes[i].text, 3) == 0) {
				c = escapes[i].byte;
				name += 2;
				break;
			}
		*to++ = c;
	}
	*to = '\0';
}

static int read_field(struct multipart *m, const char *line, struct err *err)
{
	static const char wanted[] = "Content-Disposition:";

	if (strncasecmp(line, wanted, strlen(wanted)) != 0)
		return 0;
	if (read_param(line, "name", m->name, sizeof(m->name)) < 0 ||
	    read_param(line, "filename", m->filename, sizeof(m->filename)) < 0)
		return refuse(err, "has a part whose name cannot be read");
	unescape(m->filename);
	return 0;
}

/* A whole line without its end, or NULL. */
static char *take_line(struct buf *in, size_t *ret_used)
{
	const char *end = memmem(buf_str(in), in->len, "\r\n", 2);
	size_t len = end ? (size_t)(end - in->data) : 0;
	char *line;

	if (!end)
		return NULL;
	line = xcalloc(1, len + 1);
	memcpy(line, in->data, len);
	*ret_used = len + 2;
	return line;
}

static int read_head(struct multipart *m, struct buf *in, struct err *err)
{
	for (;;) {
		size_t used;
		auto_free char *line = take_line(in, &used);
		int r;

		if (!line)
			return in->len > MULTIPART_HEAD_MAX ? refuse(err, "has too long a head")
			                                    : MULTIPART_MORE;
		if (strlen(line) + 2 != used || !utf8_is_valid(line, strlen(line)))
			return refuse(err, "has a head that is no text");
		buf_consume(in, used);
		if (line[0] == '\0') {
			m->state = STATE_DATA;
			return MULTIPART_PART;
		}
		r = read_field(m, line, err);
		if (r < 0)
			return r;
	}
}

/* Nothing may come before the first delimiter: clients send no preamble. */
static int read_first(struct multipart *m, struct buf *in, struct err *err)
{
	size_t len = m->delimiter_len - 2;

	if (in->len < len)
		return MULTIPART_MORE;
	if (memcmp(in->data, m->delimiter + 2, len) != 0)
		return refuse(err, "does not begin with its boundary");
	buf_consume(in, len);
	m->state = STATE_BEHIND;
	return -EAGAIN;
}

/* CR LF: a part follows. "--": the end. */
static int read_behind(struct multipart *m, struct buf *in, struct err *err)
{
	if (in->len < 2)
		return MULTIPART_MORE;
	if (memcmp(in->data, "--", 2) == 0) {
		m->state = STATE_END;
		return MULTIPART_END;
	}
	if (memcmp(in->data, "\r\n", 2) != 0)
		return refuse(err, "has something behind its boundary");
	buf_consume(in, 2);
	m->name[0] = m->filename[0] = '\0';
	m->state = STATE_HEAD;
	return -EAGAIN;
}

static int read_data(struct multipart *m, struct buf *in, const char **data, size_t *len)
{
	const char *end = memmem(buf_str(in), in->len, m->delimiter, m->delimiter_len);
	size_t n = end ? (size_t)(end - in->data) : in->len;

	if (end == in->data && end) {
		buf_consume(in, m->delimiter_len);
		m->state = STATE_BEHIND;
		return MULTIPART_PART_END;
	}
	if (!end) /* its end may be the beginning of the delimiter */
		n = in->len >= m->delimiter_len ? in->len - m->delimiter_len + 1 : 0;
	if (n == 0)
		return MULTIPART_MORE;
	*data = in->data;
	*len = n;
	return MULTIPART_DATA;
}

int multipart_next(struct multipart *m, struct buf *in, const char **data, size_t *len,
                   struct err *err)
{
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		switch (m->state) {
		case STATE_FIRST:
			r = read_first(m, in, err);
			break;
		case STATE_BEHIND:
			r = read_behind(m, in, err);
			break;
		case STATE_HEAD:
			r = read_head(m, in, err);
			break;
		case STATE_DATA:
			r = read_data(m, in, data, len);
			break;
		default:
			r = MULTIPART_END;
			break;
		}
	}
	return r;
}
