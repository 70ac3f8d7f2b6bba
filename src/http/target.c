// SPDX-License-Identifier: Apache-2.0
#include "http/target.h"

#include "base/parse.h"

#include <string.h>

static int bad(struct err *err, const char *why)
{
	return err_set(err, ERR_BAD_REQUEST, 0, "%s", why);
}

/* Decodes text in place; the result is never longer. Returns NULL, or what is wrong with the
 * text. */
static const char *decode(char *text, bool plus_is_blank)
{
	char *to = text;
	uint64_t byte;

	for (const char *from = text; *from; from++) {
		if (*from == '+' && plus_is_blank) {
			*to++ = ' ';
		} else if (*from != '%') {
			*to++ = *from;
		} else {
			if (strlen(from) < 3 || parse_hex(from + 1, 2, &byte) < 0)
				return "has a '%' without two hex digits";
			if (byte == 0)
				return "must not contain a NUL";
			*to++ = (char)byte;
			from += 2;
		}
	}
	*to = '\0';
	return utf8_is_valid(text, (size_t)(to - text)) ? NULL : "is not valid UTF-8";
}

static int check_segment(const char *segment, struct err *err)
{
	if (segment[0] == '\0')
		return err_set(err, ERR_NOT_FOUND, 0, "the path has an empty segment");
	if (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
		return bad(err, "the path has a '.' or '..' segment");
	for (const char *p = segment; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return bad(err, "the path has a control character");
	return 0;
}

static int parse_path(char *path, struct http_target *t, struct err *err)
{
	char *rest = path + 1;

	if (*rest == '\0')
		return 0;
	while (rest) {
		char *segment = strsep(&rest, "/");
		const char *wrong = decode(segment, /* plus_is_blank= */ false);
		int r;

		if (wrong)
			return err_set(err, ERR_BAD_REQUEST, 0, "the path %s", wrong);
		r = check_segment(segment, err);
		if (r < 0)
			return r;
		if (t->n_segments == TARGET_SEGMENTS_MAX)
			return err_set(err, ERR_NOT_FOUND, 0, "the path has more than %d segments",
			               TARGET_SEGMENTS_MAX);
		t->segments[t->n_segments++] = segment;
	}
	return 0;
}

static int parse_query(char *query, struct http_target *t, struct err *err)
{
	while (query && *query) {
		char *value = strsep(&query, "&");
		char *name = strsep(&value, "=");
		const char *wrong = decode(name, /* plus_is_blank= */ true);

		if (wrong)
			return err_set(err, ERR_BAD_REQUEST, 0, "a query parameter's name %s",
			               wrong);
		if (!value)
			value = name + strlen(name);
		wrong = decode(value, /* plus_is_blank= */ true);
		if (wrong)
			return err_field(err, name, "%s", wrong);
		if (*name == '\0')
			return bad(err, "the query has a parameter without a name");
		if (t->n_pairs == TARGET_PAIRS_MAX)
			return err_set(err, ERR_BAD_REQUEST, 0,
			               "the query has more than %d parameters", TARGET_PAIRS_MAX);
		t->pairs[t->n_pairs++] = (struct http_pair){name, value};
	}
	return 0;
}

int http_target_parse(const char *target, struct http_target *ret, struct err *err)
{
	size_t path_len = strcspn(target, "?");
	size_t len = strlen(target);
	struct http_target t = {0};
	int r;

	if (target[0] != '/')
		return bad(err, "the target is not a path");
	/* Two copies: the path as it was sent, and the one that is cut and decoded. */
	t.text = xcalloc(path_len + 1 + len + 1, 1);
	memcpy(t.text, target, path_len);
	t.path = t.text;
	memcpy(t.text + path_len + 1, target, len);
	t.text[path_len + 1 + path_len] = '\0';
	r = parse_path(t.text + path_len + 1, &t, err);
	if (r == 0 && path_len < len)
		r = parse_query(t.text + path_len + 1 + path_len + 1, &t, err);
	if (r < 0) {
		http_target_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void http_target_done(struct http_target *t)
{
	free(t->text);
	*t = (struct http_target){0};
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int http_escape(struct buf *out, const char *text)
{
	size_t before = out->len;
	int r = 0;

	for (; *text && r == 0; text++) {
		if (is_alnum(*text) || strchr("-._~", *text))
			r = buf_append(out, text, 1);
		else
			r = buf_printf(out, "%%%02X", (unsigned char)*text);
	}
	if (r < 0)
		buf_truncate(out, before);
	return r;
}

static int parse_port(const char *text, unsigned *ret)
{
	uint64_t port;

	if (parse_u64(text, 65535, &port) < 0 || port == 0)
		return -EINVAL;
	*ret = (unsigned)port;
	return 0;
}

int http_host_parse(const char *host, char name[HTTP_HOST_SIZE], unsigned *ret_port)
{
	bool is_v6 = host[0] == '[';
	const char *from = is_v6 ? host + 1 : host;
	size_t len = strcspn(from, is_v6 ? "]" : ":");
	const char *rest = from + len;
	unsigned port = 0;

	if (len == 0 || len >= HTTP_HOST_SIZE || (is_v6 && *rest++ != ']'))
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (!is_alnum(from[i]) && !strchr(is_v6 ? ":." : "-._", from[i]))
			return -EINVAL;
	if (*rest != '\0' && (*rest != ':' || parse_port(rest + 1, &port) < 0))
		return -EINVAL;
	memcpy(name, from, len);
	name[len] = '\0';
	*ret_port = port;
	return 0;
}
