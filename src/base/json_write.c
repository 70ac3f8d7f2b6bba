// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/parse.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FOREIGN_MAX 64 /* bytes above ASCII in a row that are looked at together */
#define ESCAPE_MAX  6  /* \u0000 */

void json_writer_init(struct json_writer *w, struct buf *out)
{
	*w = (struct json_writer){.out = out};
}

int json_writer_end(struct json_writer *w)
{
	assert(w->error < 0 || w->depth == 0);
	return w->error;
}

static void put(struct json_writer *w, const char *data, size_t len)
{
	if (w->error == 0)
		w->error = buf_append(w->out, data, len);
}

/*
 * Valid UTF-8 as it is, or one invalid byte as U+FFFD; gives the bytes taken. It looks no further
 * than a few bytes, or text in which such bytes come and go would be read again for each of them.
 */
static size_t put_foreign(struct json_writer *w, const char *data, size_t len)
{
	size_t run = 0, good;
	bool cut;

	while (run < MIN(len, (size_t)FOREIGN_MAX) && (unsigned char)data[run] >= 0x80)
		run++;
	good = utf8_valid_prefix(data, run, &cut);
	if (good > 0)
		put(w, data, good);
	else
		put(w, "\xef\xbf\xbd", 3);
	return good > 0 ? good : 1;
}

/* The length of what stands for c in a text; into ret. */
static size_t escape(unsigned char c, char ret[ESCAPE_MAX])
{
	static const char hex[] = "0123456789abcdef";
	static const char letters[0x80] = {
		['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};

	ret[0] = '\\';
	if (letters[c]) {
		ret[1] = letters[c];
		return 2;
	}
	ret[1] = 'u';
	ret[2] = ret[3] = '0';
	ret[4] = hex[c >> 4];
	ret[5] = hex[c & 15];
	return 6;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* ASCII is gathered, since most runs of it are short: a line, or what is between two quotes. */
static void put_text(struct json_writer *w, const char *data, size_t len)
{
	char gathered[1024];
	size_t n = 0, at = 0;

	gathered[n++] = '"';
	while (at < len && w->error == 0) {
		unsigned char c = (unsigned char)data[at];

		if (is_plain(c))
			gathered[n++] = data[at++];
		else if (c < 0x80)
			n += escape((unsigned char)data[at++], gathered + n);
		if (n > sizeof(gathered) - ESCAPE_MAX || c >= 0x80) {
			put(w, gathered, n);
			n = 0;
		}
		if (c >= 0x80)
			at += put_foreign(w, data + at, len - at);
	}
	put(w, gathered, n);
	put(w, "\"", 1);
}

static void put_name(struct json_writer *w, const char *name)
{
	if (w->comma[w->depth])
		put(w, ",", 1);
	w->comma[w->depth] = true;
	if (name) {
		put_text(w, name, strlen(name));
		put(w, ":", 1);
	}
}

static void open_level(struct json_writer *w, const char *name, const char *bracket)
{
	put_name(w, name);
	put(w, bracket, 1);
	assert(w->depth < JSON_DEPTH_MAX);
	w->depth++;
	w->comma[w->depth] = false;
}

static void close_level(struct json_writer *w, const char *bracket)
{
	assert(w->depth > 0);
	w->depth--;
	put(w, bracket, 1);
}

void json_open_object(struct json_writer *w, const char *name)
{
	open_level(w, name, "{");
}

void json_close_object(struct json_writer *w)
{
	close_level(w, "}");
}

void json_open_array(struct json_writer *w, const char *name)
{
	open_level(w, name, "[");
}

void json_close_array(struct json_writer *w)
{
	close_level(w, "]");
}

void json_put_strn(struct json_writer *w, const char *name, const char *value, size_t len)
{
	put_name(w, name);
	put_text(w, value, len);
}

void json_put_str(struct json_writer *w, const char *name, const char *value)
{
	if (value)
		json_put_strn(w, name, value, strlen(value));
	else
		json_put_null(w, name);
}

void json_put_base64(struct json_writer *w, const char *name, const void *data, size_t len)
{
	char *room;

	put_name(w, name);
	put(w, "\"", 1);
	if (w->error == 0)
		w->error = buf_reserve(w->out, base64_size(len), &room);
	if (w->error == 0)
		buf_commit(w->out, base64_encode(data, len, room));
	put(w, "\"", 1);
}

static void put_formatted(struct json_writer *w, const char *name, const char *text, int len)
{
	put_name(w, name);
	put(w, text, (size_t)len);
}

void json_put_u64(struct json_writer *w, const char *name, uint64_t value)
{
	char text[24];

	put_formatted(w, name, text, snprintf(text, sizeof(text), "%" PRIu64, value));
}

void json_put_i64(struct json_writer *w, const char *name, int64_t value)
{
	char text[24];

	put_formatted(w, name, text, snprintf(text, sizeof(text), "%" PRId64, value));
}

void json_put_double(struct json_writer *w, const char *name, double value)
{
	char text[340];
	int len;

	if (!isfinite(value)) {
		json_put_null(w, name);
		return;
	}
	len = snprintf(text, sizeof(text), "%.3f", value);
	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	put_formatted(w, name, text, len);
}

void json_put_bool(struct json_writer *w, const char *name, bool value)
{
	put_formatted(w, name, value ? "true" : "false", value ? 4 : 5);
}

void json_put_null(struct json_writer *w, const char *name)
{
	put_formatted(w, name, "null", 4);
}

void json_put_raw(struct json_writer *w, const char *name, const char *json, size_t len)
{
	put_name(w, name);
	put(w, json, len);
}

void json_put_value(struct json_writer *w, const char *name, const json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!text) {
		w->error = -ENOMEM;
		return;
	}
	json_put_raw(w, name, text, strlen(text));
	free(text);
}

/* A budget's figures are money: texts, so that no client makes floats of them. */
static void put_quota(struct json_writer *w, const struct err *err)
{
	json_open_object(w, "quota");
	json_put_str(w, "what", err->quota.what);
	if (err->code == ERR_BUDGET) {
		json_put_str(w, "limit", err->quota.limit);
		json_put_str(w, "current", err->quota.current);
	} else {
		json_put_raw(w, "limit", err->quota.limit, strlen(err->quota.limit));
		json_put_raw(w, "current", err->quota.current, strlen(err->quota.current));
	}
	if (err->quota.retry_after_ms)
		json_put_u64(w, "retry_after_ms", err->quota.retry_after_ms);
	else
		json_put_null(w, "retry_after_ms");
	json_close_object(w);
}

void json_put_err(struct json_writer *w, const char *name, const struct err *err,
                  const char *request_id)
{
	json_open_object(w, name);
	json_put_str(w, "code", err_code_name(err->code));
	json_put_str(w, "message", err->message);
	if (*err->hint)
		json_put_str(w, "hint", err->hint);
	if (*err->field)
		json_put_str(w, "field", err->field);
	if (*err->quota.what)
		put_quota(w, err);
	json_put_str(w, "request_id", request_id);
	json_close_object(w);
}
