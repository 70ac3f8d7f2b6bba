// SPDX-License-Identifier: Apache-2.0
/*
 * A head of HTTP/2 becomes the text that it would have in HTTP/1.1, and the one parser reads it
 * (http/parse.c). So the judge sees it as it sees any request, and a field that some server could
 * read as two, or as the end of the head, is refused here whatever the frames said. On the way out
 * the text that proxy_head.c wrote becomes fields again.
 */
#include "wall/h2/h2_private.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const pseudo_names[] = {
	[H2_METHOD] = ":method", [H2_SCHEME] = ":scheme", [H2_AUTHORITY] = ":authority",
	[H2_PATH] = ":path",     [H2_STATUS] = ":status",
};
static_assert(ARRAY_SIZE(pseudo_names) == H2_PSEUDOS, "a pseudo field has no name");

void h2_head_init(struct h2_head *head)
{
	*head = (struct h2_head){0};
	buf_init(&head->lines, HTTP_HEAD_MAX);
}

void h2_head_done(struct h2_head *head)
{
	for (size_t i = 0; i < H2_PSEUDOS; i++)
		free(head->pseudo[i]);
	buf_done(&head->lines);
	h2_head_init(head);
}

/* One word: nothing that ends it, and nothing that a line cannot have. */
static bool is_word(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return false;
	return len > 0;
}

static void add_pseudo(struct h2_head *head, const char *name, const char *value, size_t len)
{
	for (size_t i = 0; i < H2_PSEUDOS; i++) {
		if (strcmp(name, pseudo_names[i]) != 0)
			continue;
		if (head->pseudo[i] || !is_word(value, len))
			head->is_bad = true;
		else
			head->pseudo[i] = xstrdup(value);
		return;
	}
	head->is_bad = true; /* :protocol and the like */
}

/* HTTP/2 has none of these (RFC 9113, 8.2.2). */
static bool is_of_connection(const char *name)
{
	static const char *const names[] = {
		"connection", "keep-alive",        "proxy-connection",
		"upgrade",    "transfer-encoding", "http2-settings",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool has_capital(const char *name)
{
	while (*name && !isupper((unsigned char)*name))
		name++;
	return *name != '\0';
}

int h2_head_add(struct h2_head *head, const char *name, size_t name_len, const char *value,
                size_t value_len)
{
	int r;

	head->n_bytes += name_len + value_len + 4;
	if (head->n_bytes > HTTP_HEAD_MAX)
		return -E2BIG;
	if (strlen(name) != name_len || strlen(value) != value_len || has_capital(name) ||
	    is_of_connection(name)) {
		head->is_bad = true;
		return 0;
	}
	if (name[0] == ':') {
		add_pseudo(head, name, value, value_len);
		return 0;
	}
	if (strcmp(name, "te") == 0) {
		head->wants_trailers |= strcasecmp(value, "trailers") == 0;
		head->is_bad |= strcasecmp(value, "trailers") != 0;
		return 0;
	}
	if (strcmp(name, "host") == 0) { /* the same as the authority, or it is refused */
		const char *authority = head->pseudo[H2_AUTHORITY];

		if (head->has_host || (authority && strcasecmp(authority, value) != 0))
			head->is_bad = true;
		head->has_host = true;
		if (authority)
			return 0;
	}
	head->has_length |= strcmp(name, "content-length") == 0;
	r = http_encode_field(&head->lines, name, value);
	if (r == -EINVAL) {
		head->is_bad = true;
		return 0;
	}
	return r;
}

static int read_text(struct buf *text, enum http_kind kind, bool is_head_reply,
                     struct http_head *ret)
{
	struct err err;

	http_head_init(ret, kind);
	ret->is_head_reply = is_head_reply;
	return http_head_read(ret, text, &err) == 1 && text->len == 0 ? 0 : -EPROTO;
}

static int end_text(struct buf *text, const struct h2_head *head, bool has_body)
{
	int r = buf_append(text, buf_str(&head->lines), head->lines.len);

	if (r == 0 && has_body && !head->has_length)
		r = buf_append_str(text, "Transfer-Encoding: chunked\r\n");
	return r == 0 ? buf_append_str(text, "\r\n") : r;
}

int h2_head_to_request(const struct h2_head *head, bool has_body, struct http_head *ret)
{
	auto_call(buf_done) struct buf text = BUF_INIT(2 * HTTP_HEAD_MAX);
	const char *method = head->pseudo[H2_METHOD], *path = head->pseudo[H2_PATH];
	const char *scheme = head->pseudo[H2_SCHEME], *host = head->pseudo[H2_AUTHORITY];
	int r;

	http_head_init(ret, HTTP_REQUEST);
	if (head->is_bad || !method || !path || !scheme || strcmp(scheme, "https") != 0)
		return -EPROTO;
	r = buf_printf(&text, "%s %s HTTP/1.1\r\n", method, path);
	if (r == 0 && host)
		r = buf_printf(&text, "Host: %s\r\n", host);
	if (r == 0)
		r = end_text(&text, head, has_body);
	return r == 0 ? read_text(&text, HTTP_REQUEST, false, ret) : r;
}

int h2_head_to_reply(const struct h2_head *head, bool has_body, bool is_head_reply,
                     struct http_head *ret)
{
	auto_call(buf_done) struct buf text = BUF_INIT(2 * HTTP_HEAD_MAX);
	int r;

	http_head_init(ret, HTTP_RESPONSE);
	if (head->is_bad || !head->pseudo[H2_STATUS])
		return -EPROTO;
	r = buf_printf(&text, "HTTP/1.1 %s\r\n", head->pseudo[H2_STATUS]);
	if (r == 0)
		r = end_text(&text, head, has_body);
	return r == 0 ? read_text(&text, HTTP_RESPONSE, is_head_reply, ret) : r;
}

int h2_head_to_trailers(const struct h2_head *head, struct http_head *ret)
{
	auto_call(buf_done) struct buf text = BUF_INIT(2 * HTTP_HEAD_MAX);
	int r;

	http_head_init(ret, HTTP_RESPONSE);
	for (size_t i = 0; i < H2_PSEUDOS; i++)
		if (head->pseudo[i])
			return -EPROTO;
	if (head->is_bad)
		return -EPROTO;
	r = buf_append_str(&text, "HTTP/1.1 200\r\n");
	if (r == 0)
		r = end_text(&text, head, false);
	return r == 0 ? read_text(&text, HTTP_RESPONSE, false, ret) : r;
}

/* Names of fields are lower case in HTTP/2. */
static void lower_names(struct buf *text)
{
	char *line = text->data, *end = text->data + text->len;
	bool is_name = false; /* the first line has none */

	for (; line < end; line++) {
		if (*line == '\n')
			is_name = true;
		else if (*line == ':')
			is_name = false;
		else if (is_name)
			*line = (char)tolower((unsigned char)*line);
	}
}

static void put(struct h2_fields *f, const char *name, const char *value)
{
	/* nghttp2 copies both when they are submitted */
	f->nv[f->n++] = (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
	};
}

/* What the text says of its connection and framing is HTTP/1.1's. */
static void put_fields(struct h2_fields *f)
{
	for (size_t i = 0; i < f->head.n_fields; i++) {
		struct http_field field = http_head_field(&f->head, i);

		if (!is_of_connection(field.name) && strcmp(field.name, "host") != 0)
			put(f, field.name, field.value);
	}
}

static struct h2_fields *read_fields(struct buf *text, enum http_kind kind)
{
	struct h2_fields *f = xnew0(struct h2_fields);

	lower_names(text);
	if (read_text(text, kind, false, &f->head) == 0)
		return f;
	h2_fields_free(f);
	return NULL;
}

struct h2_fields *h2_fields_of_request(struct buf *text, bool wants_trailers)
{
	struct h2_fields *f = read_fields(text, HTTP_REQUEST);

	if (!f)
		return NULL;
	put(f, ":method", f->head.method);
	put(f, ":scheme", "https");
	put(f, ":authority", http_head_find(&f->head, "host"));
	put(f, ":path", f->head.target);
	put_fields(f);
	if (wants_trailers)
		put(f, "te", "trailers");
	return f;
}

struct h2_fields *h2_fields_of_reply(struct buf *text)
{
	char status[sizeof("200")];
	struct h2_fields *f;

	if (text->len < strlen("HTTP/1.1 200"))
		return NULL;
	memcpy(status, text->data + strlen("HTTP/1.1 "), 3);
	status[3] = '\0';
	f = read_fields(text, HTTP_RESPONSE);
	if (!f)
		return NULL;
	(void)memcpy(f->status, status, sizeof(status));
	put(f, ":status", f->status);
	put_fields(f);
	return f;
}

struct h2_fields *h2_fields_of_trailers(struct buf *lines)
{
	auto_call(buf_done) struct buf text = BUF_INIT(2 * HTTP_HEAD_MAX);
	struct h2_fields *f;

	if (buf_append_str(&text, "HTTP/1.1 200\r\n") < 0 ||
	    buf_append(&text, buf_str(lines), lines->len) < 0 || buf_append_str(&text, "\r\n") < 0)
		return NULL;
	f = read_fields(&text, HTTP_RESPONSE);
	if (f)
		put_fields(f);
	return f;
}

void h2_fields_free(struct h2_fields *f)
{
	if (!f)
		return;
	http_head_done(&f->head);
	free(f);
}
