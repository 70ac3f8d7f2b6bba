// SPDX-License-Identifier: Apache-2.0
#include "base/json/json.h"
#include "base/parse.h"
#include "base/word.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ESCAPE_MAX 6 /* \u0000 */

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

/* Copies one character to ret, or U+FFFD for one invalid byte. Returns the bytes taken. */
static size_t take_foreign(const char *data, size_t len, char *ret, size_t *ret_len)
{
	int n = utf8_char(data, len);

	*ret_len = n > 0 ? (size_t)n : 3;
	memcpy(ret, n > 0 ? data : "\xef\xbf\xbd", *ret_len);
	return n > 0 ? (size_t)n : 1;
}

/* Writes the escape of c into ret, and returns its length. */
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

/* Bytes that need no escape. */
static const bool is_plain[256] = {
	[' ' ... '!'] = true, ['#' ... '['] = true, [']' ... '~'] = true};

/* Copies the bytes that need no escape from the beginning of data. Returns their number. */
static size_t take_plain(const char *data, size_t len, char *ret)
{
	size_t n = 0;

	for (; len - n >= WORD_SIZE; n += WORD_SIZE) {
		uint64_t word = word_load(data + n);

		if (word_has(word, '"') || word_has(word, '\\') || word_has(word, 0x7f) ||
		    word_has_below(word, 0x20) || word_has_above_ascii(word))
			break;
		memcpy(ret + n, data + n, WORD_SIZE);
	}
	for (; n < len && is_plain[(unsigned char)data[n]]; n++)
		ret[n] = data[n];
	return n;
}

/* Gathers the output in a small buffer first, since most runs without an escape are short. */
static void put_text(struct json_writer *w, const char *data, size_t len)
{
	char gathered[4096];
	size_t n = 0, at = 0, some;

	gathered[n++] = '"';
	while (at < len && w->error == 0) {
		unsigned char c = (unsigned char)data[at];

		if (is_plain[c]) {
			some = take_plain(data + at, MIN(len - at, sizeof(gathered) - n),
			                  gathered + n);
			at += some;
		} else if (c < 0x80) {
			some = escape(c, gathered + n);
			at++;
		} else {
			at += take_foreign(data + at, len - at, gathered + n, &some);
		}
		n += some;
		if (n > sizeof(gathered) - ESCAPE_MAX) {
			put(w, gathered, n);
			n = 0;
		}
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

/* Writes the digits so that they stop at end. Returns where they begin. */
static char *format_u64(uint64_t value, char *end)
{
	do
		*--end = (char)('0' + value % 10);
	while (value /= 10);
	return end;
}

static void put_u64(struct json_writer *w, uint64_t value, bool is_negative)
{
	char text[24], *at = format_u64(value, text + sizeof(text));

	if (is_negative)
		*--at = '-';
	put(w, at, (size_t)(text + sizeof(text) - at));
}

static void put_i64(struct json_writer *w, int64_t value)
{
	put_u64(w, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void json_put_u64(struct json_writer *w, const char *name, uint64_t value)
{
	put_name(w, name);
	put_u64(w, value, /* is_negative= */ false);
}

void json_put_i64(struct json_writer *w, const char *name, int64_t value)
{
	put_name(w, name);
	put_i64(w, value);
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

static void put_tree(struct json_writer *w, const json_t *value);

static void put_members(struct json_writer *w, const json_t *object)
{
	const char *key, *before = "{";
	json_t *value;

	json_object_foreach ((json_t *)unconst(object), key, value) {
		put(w, before, 1);
		put_text(w, key, strlen(key));
		put(w, ":", 1);
		put_tree(w, value);
		before = ",";
	}
	put(w, *before == '{' ? "{}" : "}", *before == '{' ? 2 : 1);
}

static void put_items(struct json_writer *w, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		put(w, i == 0 ? "[" : ",", 1);
		put_tree(w, json_array_get(array, i));
	}
	put(w, json_array_size(array) == 0 ? "[]" : "]", json_array_size(array) == 0 ? 2 : 1);
}

/* Reals, which jansson formats, and true, false and null. */
static void put_scalar(struct json_writer *w, const json_t *value)
{
	char text[64];

	put(w, text, json_dumpb(value, text, sizeof(text), JSON_ENCODE_ANY));
}

/* json_dumps() would take ten times as long. The writer's own levels are not used: the tree may be
 * as deep as the parser allows, and the writer may already be inside something. */
static void put_tree(struct json_writer *w, const json_t *value)
{
	if (json_is_object(value))
		put_members(w, value);
	else if (json_is_array(value))
		put_items(w, value);
	else if (json_is_string(value))
		put_text(w, json_string_value(value), json_string_length(value));
	else if (json_is_integer(value))
		put_i64(w, json_integer_value(value));
	else
		put_scalar(w, value);
}

void json_put_value(struct json_writer *w, const char *name, const json_t *value)
{
	put_name(w, name);
	put_tree(w, value);
}

/* A budget's figures are money. They are strings, so that no client makes floats of them. */
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

static void put_queue(struct json_writer *w, const struct err *err)
{
	json_open_object(w, "queue");
	json_put_u64(w, "position", err->quota.queue_position);
	json_put_u64(w, "waiting", err->quota.queue_waiting);
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
	if (err->quota.queue_position > 0)
		put_queue(w, err);
	json_put_str(w, "request_id", request_id);
	json_close_object(w);
}
