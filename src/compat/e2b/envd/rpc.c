// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/envd/rpc.h"

#include "base/parse.h"

#include <string.h>

#define END_MAX           ((size_t)8 * 1024)
#define STREAM_TYPE       "application/connect+json"
#define KEEPALIVE_SECONDS 90
#define TIMEOUT_MS_MAX    UINT64_C(31536000000)

int rpc_envelope_next(const void *data, size_t len, json_t **ret, size_t *ret_size, struct err *err)
{
	const unsigned char *p = data;
	size_t size;

	if (len < RPC_ENVELOPE_HEAD)
		return 0;
	size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (p[0] != 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "the envelope's flags must be 0");
	if (size > RPC_MESSAGE_MAX)
		return err_set(err, ERR_TOO_LARGE, 0, "a message may have up to %zu bytes",
		               RPC_MESSAGE_MAX);
	if (len < RPC_ENVELOPE_HEAD + size)
		return 0;
	*ret_size = RPC_ENVELOPE_HEAD + size;
	if (size == 0)
		*ret = json_object();
	else if (json_parse_up_to((const char *)p + RPC_ENVELOPE_HEAD, size,
	                          JSON_REQUEST_VALUES_MAX, ret, err) < 0)
		return -EINVAL;
	return 1;
}

int rpc_envelope_read(const void *data, size_t len, json_t **ret, struct err *err)
{
	auto_json json_t *message = NULL;
	size_t size = 0;
	int r = rpc_envelope_next(data, len, &message, &size, err);

	if (r > 0 && size < len)
		return err_set(err, ERR_BAD_REQUEST, 0, "there is more than one envelope");
	if (r > 0)
		*ret = take_ptr(message);
	return r;
}

struct taking {
	struct buf in;
	rpc_fn fn;
	json_t *message; /* once it is whole */
	bool is_over;
};

static void on_done(void *arg)
{
	struct taking *t = arg;

	buf_done(&t->in);
	json_decref(t->message);
	free(t);
}

/* Passes the request to its handler. The message is freed afterwards, so the handler must not keep
 * it. */
static void hand_over(struct http_req *req, struct taking *t)
{
	auto_json json_t *message = take_ptr(t->message);
	struct envd_caller caller;
	struct err err = {0};
	rpc_fn fn = t->fn;
	int r;

	http_on_done(req, NULL, NULL);
	on_done(t);
	r = envd_find_again(req, &caller, &err);
	if (r == 0)
		r = fn(req, &caller, message, &err);
	if (r < 0)
		rpc_end(req, &err);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct taking *t = arg;
	struct err err = {0};
	int r = 0;

	if (t->is_over)
		return;
	if (data) {
		if (buf_append(&t->in, data, len) == 0)
			return;
		r = err_set(&err, ERR_TOO_LARGE, 0, "the message is too large");
	} else {
		r = rpc_envelope_read(buf_str(&t->in), t->in.len, &t->message, &err);
		if (r == 0)
			r = err_set(&err, ERR_BAD_REQUEST, 0, "the envelope is not whole");
	}
	t->is_over = true;
	if (r < 0)
		rpc_end(req, &err);
	else
		hand_over(req, t);
}

static bool is_stream_type(const char *type)
{
	size_t len = type ? strcspn(type, "; ") : 0;

	return len == strlen(STREAM_TYPE) && strncmp(type, STREAM_TYPE, len) == 0;
}

int rpc_admit(struct http_req *req)
{
	struct envd_caller caller;
	struct err err = {0};
	int r = envd_find(req, &caller, &err);

	if (r == 0 && !is_stream_type(http_header(req, "Content-Type")))
		r = err_set(&err, ERR_UNSUPPORTED_MEDIA, 0,
		            "the body must be of the type " STREAM_TYPE);
	if (r < 0)
		rpc_end(req, &err);
	return r != 0;
}

int rpc_take(struct http_req *req, rpc_fn fn)
{
	struct taking *t;

	if (rpc_admit(req) != 0)
		return 1;
	t = xnew0(struct taking);
	*t = (struct taking){.in = BUF_INIT(RPC_MESSAGE_MAX + RPC_ENVELOPE_HEAD), .fn = fn};
	http_on_done(req, on_done, t);
	http_on_body(req, on_body, t);
	return 0;
}

static int send(struct http_req *req, uint8_t flags, const char *data, size_t len)
{
	const unsigned char head[RPC_ENVELOPE_HEAD] = {
		flags, (unsigned char)(len >> 24), (unsigned char)(len >> 16),
		(unsigned char)(len >> 8), (unsigned char)len};
	auto_call(buf_done) struct buf out = BUF_INIT(len + sizeof(head));
	int r = buf_append(&out, head, sizeof(head));

	if (r == 0)
		r = buf_append(&out, data, len);
	if (!http_has_replied(req))
		http_stream_start(req, 200, STREAM_TYPE, -1);
	return r < 0 ? r : http_stream_write(req, out.data, out.len);
}

int rpc_send(struct http_req *req, const struct buf *json)
{
	return send(req, 0, buf_str(json), json->len);
}

void rpc_end_with(struct http_req *req, const char *code, const char *message)
{
	auto_call(buf_done) struct buf body = BUF_INIT(END_MAX);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	if (code) {
		json_open_object(&w, "error");
		json_put_str(&w, "code", code);
		json_put_strn(&w, "message", message, strlen(message));
		json_close_object(&w);
	}
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || send(req, RPC_FLAG_END, body.data, body.len) < 0)
		http_stream_abort(req);
	else
		http_stream_end(req);
}

void rpc_end(struct http_req *req, const struct err *err)
{
	rpc_end_with(req, err ? e2b_rpc_code(err->code) : NULL, err ? err->message : "");
}

int rpc_timeout_ms(const struct http_req *req, uint64_t *ret, struct err *err)
{
	const char *text = http_header(req, "Connect-Timeout-Ms");

	*ret = 0;
	if (text && parse_u64(text, TIMEOUT_MS_MAX, ret) < 0)
		return err_field(err, "Connect-Timeout-Ms", "must be a number");
	return 0;
}

uint64_t rpc_keepalive_us(const struct http_req *req)
{
	const char *text = http_header(req, "Keepalive-Ping-Interval");
	uint64_t seconds = KEEPALIVE_SECONDS;

	if (text && (parse_u64(text, 3600, &seconds) < 0 || seconds == 0))
		seconds = KEEPALIVE_SECONDS;
	return seconds * 1000000;
}

void rpc_reply_empty(struct http_req *req)
{
	http_reply(req, 200, "application/json", "{}", 2);
}
