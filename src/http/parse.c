// SPDX-License-Identifier: Apache-2.0
/*
 * A head is read line by line. scan_line() looks at each byte once, refuses bytes that no line may
 * have, and finds the end of the line. The pieces of the line are then copied into text, each with
 * a NUL, and the line is removed from in. Limits are checked byte by byte in the same scan, so the
 * result does not depend on how the bytes were split on their way. finish() checks the head as a
 * whole.
 *
 * A chunked body is read by a state machine, one byte at a time outside the data itself. Extensions
 * and trailers are checked, counted against one small bound and dropped. Nothing here uses them,
 * and a trailer that became a header field would bypass the checks of the head.
 */
#include "http/parse.h"

#include "base/parse.h"
#include "http/target.h"

#include <strings.h>

#define METHOD_LEN_MAX  32
#define CHUNK_EXTRA_MAX ((size_t)4 * 1024)

enum char_class {
	IN_TOKEN = BIT(0),
	IN_URI = BIT(1),
};

/* RFC 9110 token; RFC 3986 path, query and authority characters. */
static unsigned classes_of(unsigned char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return IN_TOKEN | IN_URI;
	if (c == '\0')
		return 0;
	return (strchr("!#$%&'*+-.^_`|~", c) ? IN_TOKEN : 0U) |
	       (strchr("-._~!$&'()*+,;=:@/?%[]", c) ? IN_URI : 0U);
}

static bool all_in(const char *text, size_t len, enum char_class class)
{
	for (size_t i = 0; i < len; i++)
		if (!(classes_of((unsigned char)text[i]) & class))
			return false;
	return len > 0;
}

bool http_is_token(const char *text, size_t len)
{
	return all_in(text, len, IN_TOKEN);
}

static bool is_value_byte(unsigned char c)
{
	return (c >= 0x20 && c != 0x7f) || c == '\t';
}

void http_head_init(struct http_head *h, enum http_kind kind)
{
	*h = (struct http_head){.kind = kind};
	buf_init(&h->text, HTTP_HEAD_MAX + 16);
}

void http_head_done(struct http_head *h)
{
	buf_done(&h->text);
}

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_BAD_REQUEST, 0, "%s", why);
}

static int too_long(const struct http_head *h, struct err *err)
{
	if (!h->has_start_line)
		return err_set(err, ERR_URI_TOO_LONG, 0, "the first line has more than %zu bytes",
		               HTTP_LINE_MAX);
	return err_set(err, ERR_HEADERS_TOO_LARGE, 0, "the head has more than %zu bytes",
	               HTTP_HEAD_MAX);
}

/* Returns 1 when the first n_scanned bytes of in are a line with its CR LF. */
static int scan_line(struct http_head *h, const struct buf *in, struct err *err)
{
	size_t max = h->has_start_line ? HTTP_HEAD_MAX - h->n_bytes : HTTP_LINE_MAX;

	while (h->n_scanned < in->len) {
		size_t at = h->n_scanned++;
		unsigned char c = (unsigned char)in->data[at];
		bool is_after_cr = at > 0 && in->data[at - 1] == '\r';

		if (at >= max)
			return too_long(h, err);
		if (c == '\n' && is_after_cr)
			return 1;
		if (c == '\n')
			return refuse(err, "a line ends in LF without CR");
		if (is_after_cr)
			return refuse(err, "there is a CR without LF");
		if (c != '\r' && !is_value_byte(c))
			return refuse(err, "there is a control byte in the head");
	}
	return 0;
}

/* Keeps a piece with a NUL behind it, and gives its place in text. */
static int keep(struct http_head *h, const char *piece, size_t len, uint32_t *ret)
{
	size_t at = h->text.len;
	int r = buf_append(&h->text, piece, len);

	if (r == 0)
		r = buf_append(&h->text, "", 1);
	if (r == 0)
		*ret = (uint32_t)at;
	return r;
}

static int parse_version(struct http_head *h, const char *text, size_t len)
{
	if (len != 8 || memcmp(text, "HTTP/1.", 7) != 0 || (text[7] != '0' && text[7] != '1'))
		return -EINVAL;
	h->minor = (unsigned)(text[7] - '0');
	return 0;
}

/* "host:port" of CONNECT, or "http://host/…". */
static bool is_proxy_target(const char *target, bool is_connect)
{
	char name[HTTP_HOST_SIZE], host[HTTP_HOST_SIZE + 8];
	const char *from = target;
	unsigned port;
	size_t len;

	if (!is_connect) {
		if (strncasecmp(target, "http://", 7) != 0)
			return false;
		from += 7;
	}
	len = strcspn(from, "/?");
	if (len >= sizeof(host) || (is_connect && from[len] != '\0'))
		return false;
	memcpy(host, from, len);
	host[len] = '\0';
	return http_host_parse(host, name, &port) == 0 && (!is_connect || port != 0);
}

static int check_target(const struct http_head *h, const char *method, const char *target,
                        struct err *err)
{
	bool is_connect = strcmp(method, "CONNECT") == 0;

	if (!all_in(target, strlen(target), IN_URI))
		return refuse(err, "the target has a character that must be percent-encoded");
	if (target[0] == '/' && !is_connect)
		return 0;
	if (strcmp(target, "*") == 0 && strcmp(method, "OPTIONS") == 0)
		return 0;
	if (h->kind == HTTP_PROXY_REQUEST && is_proxy_target(target, is_connect))
		return 0;
	return refuse(err, "the target must be a path that begins with '/'");
}

static int parse_request_line(struct http_head *h, const char *line, size_t len, struct err *err)
{
	const char *first = memchr(line, ' ', len);
	const char *second =
		first ? memchr(first + 1, ' ', (size_t)(line + len - first - 1)) : NULL;
	size_t method_len;
	int r;

	if (!second)
		return refuse(err, "the request line is not 'METHOD TARGET HTTP/1.1'");
	method_len = (size_t)(first - line);
	if (method_len > METHOD_LEN_MAX || !http_is_token(line, method_len))
		return refuse(err, "the method is not a word");
	if (parse_version(h, second + 1, (size_t)(line + len - second - 1)) < 0)
		return refuse(err, "the request line does not end in HTTP/1.1 or HTTP/1.0");
	r = keep(h, line, method_len, &h->start[0]);
	if (r == 0)
		r = keep(h, first + 1, (size_t)(second - first - 1), &h->start[1]);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot keep the request line");
	return check_target(h, h->text.data + h->start[0], h->text.data + h->start[1], err);
}

static int parse_status_line(struct http_head *h, const char *line, size_t len, struct err *err)
{
	int status = 0, r;

	if (len < 12 || parse_version(h, line, 8) < 0 || line[8] != ' ' ||
	    (len > 12 && line[12] != ' '))
		return refuse(err, "the status line is not 'HTTP/1.1 STATUS REASON'");
	for (size_t i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9')
			return refuse(err, "the status is not a number");
		status = status * 10 + (line[i] - '0');
	}
	if (status < 100 || status > 599)
		return refuse(err, "the status is not from 100 to 599");
	h->status = status;
	r = keep(h, line + MIN(len, (size_t)13), len > 13 ? len - 13 : 0, &h->start[0]);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot keep the status line") : 0;
}

static int parse_field(struct http_head *h, const char *line, size_t len, struct err *err)
{
	const char *colon = memchr(line, ':', len);
	const char *from, *end = line + len;
	int r;

	if (line[0] == ' ' || line[0] == '\t')
		return refuse(err, "a header is folded over two lines");
	if (!colon || !http_is_token(line, (size_t)(colon - line)))
		return refuse(err, "a header's name is empty or has a character that it must not");
	if (h->n_fields == HTTP_FIELDS_MAX)
		return err_set(err, ERR_HEADERS_TOO_LARGE, 0, "there are more than %d headers",
		               HTTP_FIELDS_MAX);
	from = colon + 1;
	while (from < end && (*from == ' ' || *from == '\t'))
		from++;
	while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	r = keep(h, line, (size_t)(colon - line), &h->fields[h->n_fields].name);
	if (r == 0)
		r = keep(h, from, (size_t)(end - from), &h->fields[h->n_fields].value);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot keep a header");
	h->n_fields++;
	return 0;
}

struct http_field http_head_field(const struct http_head *h, size_t i)
{
	return (struct http_field){h->text.data + h->fields[i].name,
	                           h->text.data + h->fields[i].value};
}

const char *http_head_find(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		if (strcasecmp(f.name, name) == 0)
			return f.value;
	}
	return NULL;
}

size_t http_head_count(const struct http_head *h, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(http_head_field(h, i).name, name) == 0)
			n++;
	return n;
}

bool http_list_has(const char *list, const char *word)
{
	size_t word_len = strlen(word);

	while (*list) {
		size_t item_len = strcspn(list, ",");
		const char *item = list;
		size_t len;

		list += item_len + (list[item_len] == ',');
		while (*item == ' ' || *item == '\t') {
			item++;
			item_len--;
		}
		len = strcspn(item, ",; \t");
		if (len == word_len && strncasecmp(item, word, len) == 0)
			return true;
	}
	return false;
}

/* Digits only, as in the RFC's grammar: no sign, no blank, no list. Leading zeros are allowed. */
static int parse_length(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	if (*text == '\0' || strlen(text) > 19)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	if (value > INT64_MAX)
		return -ERANGE;
	*ret = value;
	return 0;
}

static int find_framing(struct http_head *h, struct err *err)
{
	const char *coding = http_head_find(h, "Transfer-Encoding");
	const char *length = http_head_find(h, "Content-Length");
	bool is_response = h->kind == HTTP_RESPONSE;

	if (http_head_count(h, "Content-Length") > 1)
		return refuse(err, "Content-Length is given more than once");
	if (http_head_count(h, "Transfer-Encoding") > 1)
		return refuse(err, "Transfer-Encoding is given more than once");
	if (coding && length)
		return refuse(err, "both Content-Length and Transfer-Encoding are given");
	if (coding && h->minor == 0)
		return refuse(err, "HTTP/1.0 has no Transfer-Encoding");
	if (coding && strcmp(coding, "chunked") != 0)
		return refuse(err, "the only Transfer-Encoding is 'chunked'");
	if (length && parse_length(length, &h->length) < 0)
		return refuse(err, "Content-Length is not a number");

	if (is_response &&
	    (h->is_head_reply || h->status < 200 || h->status == 204 || h->status == 304))
		h->framing = HTTP_NO_BODY;
	else if (coding)
		h->framing = HTTP_CHUNKED;
	else if (length)
		h->framing = HTTP_LENGTH;
	else
		h->framing = is_response ? HTTP_UNTIL_CLOSE : HTTP_NO_BODY;
	return 0;
}

static int check_request(struct http_head *h, struct err *err)
{
	/* Fields that decide about trust or meaning may occur only once. */
	static const char *const single[] = {"Authorization",   "X-API-Key", "Origin",
	                                     "Content-Type",    "Expect",    "Upgrade",
	                                     "Content-Encoding"};
	const char *host = http_head_find(h, "Host");
	const char *expect = http_head_find(h, "Expect");
	char name[HTTP_HOST_SIZE];
	unsigned port;

	if (http_head_count(h, "Host") > 1)
		return refuse(err, "Host is given more than once");
	if (!host && h->minor == 1)
		return refuse(err, "Host is missing");
	if (host && http_host_parse(host, name, &port) < 0)
		return refuse(err, "Host is not 'name' or 'name:port'");
	for (size_t i = 0; i < ARRAY_SIZE(single); i++)
		if (http_head_count(h, single[i]) > 1)
			return err_set(err, ERR_BAD_REQUEST, 0, "%s is given more than once",
			               single[i]);
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return refuse(err, "the only expectation that can be met is '100-continue'");
	h->expects_continue = expect && h->minor == 1;
	return 0;
}

static void find_connection(struct http_head *h)
{
	bool has_close = false, has_upgrade = false;

	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		if (strcasecmp(f.name, "Connection") != 0)
			continue;
		has_close |= http_list_has(f.value, "close");
		has_upgrade |= http_list_has(f.value, "upgrade");
	}
	h->keep_alive = h->minor == 1 && !has_close && h->framing != HTTP_UNTIL_CLOSE;
	h->is_upgrade = has_upgrade && http_head_find(h, "Upgrade");
}

static int finish(struct http_head *h, struct err *err)
{
	int r;

	if (h->kind == HTTP_RESPONSE) {
		h->reason = h->text.data + h->start[0];
	} else {
		h->method = h->text.data + h->start[0];
		h->target = h->text.data + h->start[1];
	}
	r = find_framing(h, err);
	if (r == 0 && h->kind != HTTP_RESPONSE)
		r = check_request(h, err);
	if (r < 0)
		return r;
	find_connection(h);
	return 1;
}

static int parse_line(struct http_head *h, const char *line, size_t len, struct err *err)
{
	if (h->has_start_line)
		return parse_field(h, line, len, err);
	h->has_start_line = true;
	if (h->kind == HTTP_RESPONSE)
		return parse_status_line(h, line, len, err);
	return parse_request_line(h, line, len, err);
}

int http_head_read(struct http_head *h, struct buf *in, struct err *err)
{
	for (;;) {
		size_t len;
		int r = scan_line(h, in, err);

		if (r <= 0)
			return r;
		len = h->n_scanned;
		h->n_scanned = 0;
		h->n_bytes += len;
		if (len == 2 && h->has_start_line) {
			buf_consume(in, len);
			return finish(h, err);
		}
		r = parse_line(h, in->data, len - 2, err);
		if (r < 0)
			return r;
		buf_consume(in, len);
	}
}

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	TRAILER_START, /* of a line, which may be the last and empty one */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	LAST_LF,
	BODY_DONE,
};

void http_decoder_init(struct http_decoder *d, enum http_framing framing, uint64_t length)
{
	*d = (struct http_decoder){.framing = framing, .left = length, .state = CHUNK_SIZE};
	if (framing == HTTP_NO_BODY || (framing == HTTP_LENGTH && length == 0))
		d->state = BODY_DONE;
	else if (framing == HTTP_CHUNKED)
		d->left = 0;
}

bool http_decoder_is_done(const struct http_decoder *d)
{
	return d->state == BODY_DONE;
}

int http_decode_eof(struct http_decoder *d)
{
	if (d->framing == HTTP_UNTIL_CLOSE)
		d->state = BODY_DONE;
	return d->state == BODY_DONE ? 0 : -EPROTO;
}

static int size_step(struct http_decoder *d, char c)
{
	uint64_t digit;

	if (parse_hex(&c, 1, &digit) == 0) {
		/* Also bounded by INT64_MAX, so that our sums fit into an int64_t. */
		if (++d->digits > 16 || d->left > INT64_MAX >> 4)
			return -EPROTO;
		d->left = d->left << 4 | digit;
		return CHUNK_SIZE;
	}
	if (d->digits == 0)
		return -EPROTO;
	return c == '\r' ? CHUNK_SIZE_LF : c == ';' ? CHUNK_EXTENSION : -EPROTO;
}

static int extra_step(struct http_decoder *d, char c)
{
	if (++d->n_extra > CHUNK_EXTRA_MAX)
		return -EPROTO;
	if (d->state == TRAILER_START || d->state == TRAILER_NAME) {
		if (http_is_token(&c, 1))
			return TRAILER_NAME;
		return c == ':' && d->state == TRAILER_NAME ? TRAILER_VALUE : -EPROTO;
	}
	return is_value_byte((unsigned char)c) ? (int)d->state : -EPROTO;
}

/* The state after one byte outside the data, or -EPROTO. */
static int chunk_step(struct http_decoder *d, char c)
{
	switch ((enum chunk_state)d->state) {
	case CHUNK_SIZE:
		return size_step(d, c);
	case CHUNK_EXTENSION:
		return c == '\r' ? CHUNK_SIZE_LF : extra_step(d, c);
	case CHUNK_SIZE_LF:
		d->digits = 0;
		return c != '\n' ? -EPROTO : d->left > 0 ? CHUNK_DATA : TRAILER_START;
	case CHUNK_DATA_CR:
		return c == '\r' ? CHUNK_DATA_LF : -EPROTO;
	case CHUNK_DATA_LF:
		return c == '\n' ? CHUNK_SIZE : -EPROTO;
	case TRAILER_START:
		return c == '\r' ? LAST_LF : extra_step(d, c);
	case TRAILER_NAME:
		return extra_step(d, c);
	case TRAILER_VALUE:
		return c == '\r' ? TRAILER_LF : extra_step(d, c);
	case TRAILER_LF:
		return c == '\n' ? TRAILER_START : -EPROTO;
	case LAST_LF:
		return c == '\n' ? BODY_DONE : -EPROTO;
	case CHUNK_DATA:
	case BODY_DONE:
		break;
	}
	return -EPROTO;
}

static int give(struct http_decoder *d, struct buf *in, const char **data, size_t *len)
{
	size_t n = d->framing == HTTP_UNTIL_CLOSE ? in->len : (size_t)MIN(d->left, in->len);

	*data = in->data;
	*len = n;
	buf_consume(in, n);
	if (d->framing == HTTP_UNTIL_CLOSE)
		return HTTP_DECODE_DATA;
	d->left -= n;
	if (d->left == 0)
		d->state = d->framing == HTTP_CHUNKED ? CHUNK_DATA_CR : BODY_DONE;
	return HTTP_DECODE_DATA;
}

int http_decode(struct http_decoder *d, struct buf *in, const char **data, size_t *len)
{
	while (d->state != BODY_DONE) {
		int next;

		if (in->len == 0)
			return HTTP_DECODE_MORE;
		if (d->framing != HTTP_CHUNKED || d->state == CHUNK_DATA)
			return give(d, in, data, len);
		next = chunk_step(d, in->data[0]);
		if (next < 0)
			return next;
		d->state = (unsigned)next;
		buf_consume(in, 1);
	}
	return HTTP_DECODE_END;
}

int http_encode_chunk(struct buf *out, const void *data, size_t len)
{
	size_t before = out->len;
	int r = buf_printf(out, "%zx\r\n", len);

	if (r == 0)
		r = buf_append(out, data, len);
	if (r == 0)
		r = buf_append(out, "\r\n", 2);
	if (r < 0)
		buf_truncate(out, before);
	return r;
}

int http_encode_last_chunk(struct buf *out)
{
	return buf_append(out, "0\r\n\r\n", 5);
}

int http_encode_field(struct buf *out, const char *name, const char *value)
{
	if (!http_is_token(name, strlen(name)))
		return -EINVAL;
	for (const char *p = value; *p; p++)
		if (!is_value_byte((unsigned char)*p))
			return -EINVAL;
	return buf_printf(out, "%s: %s\r\n", name, value);
}
