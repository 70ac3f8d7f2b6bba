// SPDX-License-Identifier: Apache-2.0
/*
 * Turns a handler's calls into the bytes of a reply in the connection's buffer. A handler that
 * streams must watch http_stream_pending(). If it does not, its client is cut off at
 * CONN_PENDING_MAX, so that the daemon does not run out of memory.
 */
#include "http/conn.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <strings.h>
#include <time.h>

#define ERR_BODY_MAX ((size_t)16 * 1024)
/* If more than this of a body is unread, the connection is closed rather than kept. */
#define UNREAD_MAX ((size_t)256 * 1024)

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{101, "Switching Protocols"},
	{200, "OK"},
	{201, "Created"},
	{202, "Accepted"},
	{204, "No Content"},
	{206, "Partial Content"},
	{303, "See Other"},
	{304, "Not Modified"},
	{308, "Permanent Redirect"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{410, "Gone"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"},
	{422, "Unprocessable Content"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{502, "Bad Gateway"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
	{507, "Insufficient Storage"},
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Status";
}

bool http_has_replied(const struct http_req *req)
{
	return req->reply != REPLY_NONE;
}

void http_reply_header(struct http_req *req, const char *name, const char *value)
{
	if (http_encode_field(&req->reply_fields, name, value) < 0) {
		log_debug("http.header_dropped", "id=%s name='%s'", req->id, name);
		return;
	}
	if (strcasecmp(name, "Cache-Control") == 0)
		req->has_cache_control = true;
}

/* Whether the unread rest of the request's body is too long, of unknown length, or may never come
 * (Expect: 100-continue). The reply must not promise to keep a connection that the next chunk may
 * end. */
static bool leaves_body_unread(const struct http_req *req)
{
	const struct http_decoder *d = &req->conn->decoder;

	if (http_decoder_is_done(d))
		return false;
	return req->head.expects_continue || d->framing != HTTP_LENGTH || d->left > UNREAD_MAX;
}

static bool is_uncached(const char *type)
{
	return strncmp(type, "application/json", 16) == 0 ||
	       strncmp(type, "application/x-ndjson", 20) == 0 ||
	       strncmp(type, "text/event-stream", 17) == 0;
}

static int put_date(struct buf *out)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[40];

	if (!gmtime_r(&now, &tm) ||
	    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
		return 0;
	return buf_printf(out, "Date: %s\r\n", text);
}

static int put_fields(struct http_req *req, struct buf *out, int status, const char *type,
                      int64_t length)
{
	bool has_length = length >= 0 && status >= 200 && status != 204 && status != 304;
	int r = put_date(out);

	if (r == 0)
		r = buf_printf(out,
		               "Server: cloche\r\nX-Request-Id: %s\r\n"
		               "X-Content-Type-Options: nosniff\r\n",
		               req->id);
	if (r == 0 && type)
		r = http_encode_field(out, "Content-Type", type);
	if (r == 0 && type && is_uncached(type) && !req->has_cache_control)
		r = buf_append_str(out, "Cache-Control: no-store\r\n");
	if (r == 0 && has_length)
		r = buf_printf(out, "Content-Length: %" PRId64 "\r\n", length);
	if (r == 0 && req->is_chunked)
		r = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && req->conn->must_close && status != 101)
		r = buf_append_str(out, "Connection: close\r\n");
	if (r == 0)
		r = buf_append(out, buf_str(&req->reply_fields), req->reply_fields.len);
	return r == 0 ? buf_append(out, "\r\n", 2) : r;
}

void http_reply_at_once(struct http_req *req)
{
	req->is_unheld = true;
}

static void hold_if_asked(struct http_req *req, size_t from)
{
	const struct http_app *app = server_app(req->conn->server);
	struct conn *c = req->conn;

	if (!app->holds || req->is_unheld || req->status < 200 || req->status >= 300)
		return;
	c->held_for = app->holds(req);
	c->held_from = from;
	if (c->held_for > 0)
		server_conn_held(c->server, c);
}

static void start(struct http_req *req, int status, const char *type, int64_t length)
{
	struct conn *c = req->conn;
	struct buf *out = conn_out(c);
	size_t before = out->len;

	assert(req->reply == REPLY_NONE);
	req->status = status;
	req->reply = REPLY_STARTED;
	req->drops_body = req->method == HTTP_HEAD || status == 204 || status == 304;
	req->reply_left = length;
	if (leaves_body_unread(req) || server_is_draining(c->server))
		c->must_close = true;
	if (length < 0 && status != 101 && !req->drops_body) {
		req->is_chunked = req->head.minor == 1;
		c->must_close |= !req->is_chunked; /* HTTP/1.0 reads until the end */
	}
	if (buf_printf(out, "HTTP/1.1 %d %s\r\n", status, reason_of(status)) < 0 ||
	    put_fields(req, out, status, type, length) < 0)
		c->is_aborted = true;
	req->reply_bytes += out->len - before;
	hold_if_asked(req, before);
}

void http_stream_start(struct http_req *req, int status, const char *type, int64_t length)
{
	start(req, status, type, length);
}

/* The body is not as long as declared, or the buffer is full: the client must see an error.
 */
static int give_up(struct http_req *req)
{
	http_stream_abort(req);
	return -EPIPE;
}

int http_stream_write(struct http_req *req, const void *data, size_t len)
{
	struct conn *c = req->conn;
	int r;

	if (c->state == CONN_DEAD || c->is_aborted)
		return -EPIPE;
	assert(req->reply == REPLY_STARTED);
	if (len == 0)
		return 0;
	if (req->reply_left >= 0) {
		if (len > (uint64_t)req->reply_left)
			return give_up(req);
		req->reply_left -= (int64_t)len;
	}
	if (req->drops_body)
		return 0;
	if (c->out.len > CONN_PENDING_MAX)
		return give_up(req);
	r = req->is_chunked ? http_encode_chunk(conn_out(c), data, len)
	                    : buf_append(conn_out(c), data, len);
	if (r < 0)
		return give_up(req);
	req->reply_bytes += len;
	return 0;
}

size_t http_stream_pending(const struct http_req *req)
{
	return req->conn->out.len;
}

void http_stream_end(struct http_req *req)
{
	struct conn *c = req->conn;

	if (c->state == CONN_DEAD || c->is_aborted)
		return;
	assert(req->reply == REPLY_STARTED);
	if (req->reply_left > 0 && !req->drops_body) {
		http_stream_abort(req);
		return;
	}
	req->reply = REPLY_ENDED;
	if (req->is_chunked && http_encode_last_chunk(conn_out(c)) < 0)
		c->is_aborted = true;
	conn_kick(c);
}

void http_stream_abort(struct http_req *req)
{
	req->conn->is_aborted = true;
	conn_kick(req->conn);
}

void http_reply(struct http_req *req, int status, const char *type, const void *data, size_t len)
{
	struct conn *c = req->conn;

	if (c->state == CONN_DEAD || c->is_aborted)
		return;
	start(req, status, type, (int64_t)len);
	if (!req->drops_body && buf_append(conn_out(c), data, len) < 0)
		c->is_aborted = true;
	if (!req->drops_body)
		req->reply_bytes += len;
	req->reply_left = 0;
	req->reply = REPLY_ENDED;
}

void http_reply_json(struct http_req *req, int status, const struct buf *body)
{
	http_reply(req, status, "application/json", buf_str(body), body->len);
}

/* Header fields of an error, whatever form its body has. */
static void put_err_fields(struct http_req *req, const struct err *err)
{
	char seconds[24];

	if (err->code == ERR_UNAUTHENTICATED)
		http_reply_header(req, "WWW-Authenticate", "Bearer");
	if (err->quota.retry_after_ms == 0)
		return;
	(void)snprintf(seconds, sizeof(seconds), "%" PRIu64,
	               (err->quota.retry_after_ms + 999) / 1000);
	http_reply_header(req, "Retry-After", seconds);
}

void http_reply_err(struct http_req *req, const struct err *err)
{
	const struct http_app *app = server_app(req->conn->server);
	auto_call(buf_done) struct buf body = BUF_INIT(ERR_BODY_MAX);
	struct json_writer w;

	put_err_fields(req, err);
	if (app->fail && app->fail(req, err) == 1)
		return;
	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	json_put_err(&w, "error", err, req->id);
	json_close_object(&w);
	if (json_writer_end(&w) < 0) /* cannot pass its cap: err's texts are bounded */
		buf_truncate(&body, 0);
	http_reply_json(req, err_code_status(err->code), &body);
}

void reply_replace(struct http_req *req, const struct err *err)
{
	struct conn *c = req->conn;

	if (req->reply != REPLY_ENDED || req->is_chunked) {
		c->is_aborted = true;
		return;
	}
	buf_truncate(&c->out, c->held_from);
	buf_truncate(&req->reply_fields, 0);
	req->has_cache_control = false;
	req->reply = REPLY_NONE;
	req->reply_bytes = 0;
	http_reply_err(req, err);
}

void reply_err_and_close(struct http_req *req, const struct err *err)
{
	req->conn->must_close = true;
	http_reply_err(req, err);
}
