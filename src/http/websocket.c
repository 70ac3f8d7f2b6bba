// SPDX-License-Identifier: Apache-2.0
/*
 * The codec takes a frame only when all of it has come. So a message is in one of two places: whole
 * in the reader's buffer, or collected from its fragments. A message of one frame is returned
 * without a copy.
 *
 * A server connection ends in the order of RFC 6455: a close frame each way, then the socket. We
 * wait for the client's answer for CLOSE_WAIT_US only. A client's close frame is seen, and
 * answered, when all messages before it are taken.
 */
#include "http/websocket.h"

#include "base/parse.h"
#include "http/conn.h"

#include <openssl/evp.h>
#include <strings.h>

#define FRAME_HEAD_MAX  14
#define CONTROL_MAX     ((size_t)125)
#define CLOSE_WAIT_US   3000000
#define CLOSE_NORMAL    1000
#define CLOSE_PROTOCOL  1002
#define CLOSE_NO_CODE   1005
#define CLOSE_BAD_TEXT  1007
#define CLOSE_TOO_LARGE 1009

void ws_codec_init(struct ws_codec *c, bool is_server)
{
	*c = (struct ws_codec){.is_server = is_server};
	buf_init(&c->data, WS_MESSAGE_MAX);
}

void ws_codec_done(struct ws_codec *c)
{
	buf_done(&c->data);
}

struct frame {
	bool is_last;
	enum ws_opcode op;
	const unsigned char *mask; /* NULL = none */
	size_t head_len;
	uint64_t len;
};

static bool is_control(enum ws_opcode op)
{
	return op >= WS_CLOSE;
}

/* Returns 1, 0 if more bytes are needed, or -EPROTO. Only the shortest form of a length is
 * accepted. */
static int parse_length(const unsigned char *p, size_t have, struct frame *f)
{
	unsigned bytes = (p[1] & 0x7f) == 126 ? 2 : (p[1] & 0x7f) == 127 ? 8 : 0;

	f->len = p[1] & 0x7f;
	f->head_len = 2 + bytes;
	if (have < f->head_len)
		return 0;
	if (bytes == 0)
		return 1;
	f->len = 0;
	for (unsigned i = 0; i < bytes; i++)
		f->len = f->len << 8 | p[2 + i];
	if (f->len > INT64_MAX || f->len < (bytes == 2 ? 126 : 65536))
		return -EPROTO;
	return 1;
}

static int parse_frame(const struct ws_codec *c, const struct buf *in, struct frame *f)
{
	const unsigned char *p = (const unsigned char *)in->data;
	int r;

	if (in->len < 2)
		return 0;
	*f = (struct frame){.is_last = p[0] & 0x80, .op = p[0] & 0x0f};
	if (p[0] & 0x70 || (f->op > WS_BINARY && f->op < WS_CLOSE) || f->op > WS_PONG)
		return -EPROTO;
	if (!!(p[1] & 0x80) != c->is_server)
		return -EPROTO;
	if (is_control(f->op) && (!f->is_last || (p[1] & 0x7f) > CONTROL_MAX))
		return -EPROTO;
	if (!is_control(f->op) && (f->op == WS_CONTINUE) != (c->message != WS_CONTINUE))
		return -EPROTO;
	r = parse_length(p, in->len, f);
	if (r <= 0)
		return r;
	if (!is_control(f->op) && f->len > buf_room(&c->data))
		return -EMSGSIZE;
	if (p[1] & 0x80) {
		f->mask = p + f->head_len;
		f->head_len += 4;
	}
	return in->len >= f->head_len + f->len;
}

static void apply_mask(char *data, size_t len, const unsigned char mask[4])
{
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(data[i] ^ mask[i & 3]);
}

static int check_close(const char *data, size_t len)
{
	unsigned code;

	if (len == 0)
		return 0;
	if (len == 1)
		return -EPROTO;
	code = (unsigned)(unsigned char)data[0] << 8 | (unsigned char)data[1];
	if (code < 1000 || (code > 1003 && code < 1007) || (code > 1014 && code < 3000) ||
	    code > 4999)
		return -EPROTO;
	return utf8_is_valid(data + 2, len - 2) ? 0 : -EILSEQ;
}

/* Adds a frame's payload to its message. 1: the message is complete. */
static int gather(struct ws_codec *c, const struct frame *f, const char **data, size_t *len)
{
	int r;

	if (f->op != WS_CONTINUE)
		c->message = f->op;
	if (f->is_last && c->data.len == 0)
		return 1;
	r = buf_append(&c->data, *data, *len);
	if (r < 0)
		return r == -E2BIG ? -EMSGSIZE : r;
	*data = c->data.data;
	*len = c->data.len;
	return f->is_last;
}

int ws_decode(struct ws_codec *c, struct buf *in, enum ws_opcode *op, const char **data,
              size_t *len)
{
	for (;;) {
		struct frame f;
		int r;

		if (c->message == WS_CONTINUE && c->data.len > 0)
			buf_done(&c->data); /* the last message, which the caller has seen */
		r = parse_frame(c, in, &f);
		if (r <= 0)
			return r;
		*op = f.op;
		*data = in->data + f.head_len;
		*len = (size_t)f.len;
		if (f.mask)
			apply_mask(in->data + f.head_len, *len, f.mask);
		buf_consume(in, f.head_len + *len);
		if (is_control(f.op)) {
			r = f.op == WS_CLOSE ? check_close(*data, *len) : 0;
			return r < 0 ? r : 1;
		}
		r = gather(c, &f, data, len);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		*op = c->message;
		c->message = WS_CONTINUE;
		return *op == WS_TEXT && !utf8_is_valid(*data, *len) ? -EILSEQ : 1;
	}
}

int ws_encode(struct buf *out, enum ws_opcode op, const void *data, size_t len,
              const unsigned char mask[4])
{
	unsigned char head[FRAME_HEAD_MAX] = {(unsigned char)(0x80 | op)};
	unsigned bytes = len < 126 ? 0 : len < 65536 ? 2 : 8;
	size_t head_len = 2 + bytes;
	char *room;
	int r;

	head[1] = (unsigned char)(bytes == 0 ? len : bytes == 2 ? 126 : 127);
	for (unsigned i = 0; i < bytes; i++)
		head[2 + i] = (unsigned char)((uint64_t)len >> (8 * (bytes - 1 - i)));
	if (mask) {
		head[1] |= 0x80;
		memcpy(head + head_len, mask, 4);
		head_len += 4;
	}
	r = buf_reserve(out, head_len + len, &room);
	if (r < 0)
		return r;
	memcpy(room, head, head_len);
	if (len > 0)
		memcpy(room + head_len, data, len);
	if (mask)
		apply_mask(room + head_len, len, mask);
	buf_commit(out, head_len + len);
	return 0;
}

void ws_accept_key(const char *key, char ret[WS_ACCEPT_SIZE])
{
	char text[128];
	unsigned char digest[20];
	size_t digest_len = sizeof(digest);
	int len = snprintf(text, sizeof(text), "%.64s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);

	if (EVP_Q_digest(NULL, "SHA1", NULL, text, (size_t)len, digest, &digest_len) != 1)
		abort(); /* the protocol needs SHA-1 */
	(void)base64_encode(digest, sizeof(digest), ret);
}

struct http_ws {
	struct http_req *req;
	struct ws_codec codec;
	const struct http_ws_ops *ops;
	void *arg;
	bool has_sent_close;
	struct loop_timer *timer; /* for the client's close frame */
};

static int send_frame(struct http_ws *ws, enum ws_opcode op, const void *data, size_t len)
{
	struct conn *c = ws->req->conn;
	int r;

	if (c->state == CONN_DEAD || c->is_aborted)
		return -EPIPE;
	r = c->out.len > CONN_PENDING_MAX ? -ENOBUFS : ws_encode(conn_out(c), op, data, len, NULL);
	if (r < 0) {
		http_stream_abort(ws->req);
		return -EPIPE;
	}
	return 0;
}

int ws_send(struct http_ws *ws, enum ws_opcode op, const void *data, size_t len)
{
	return ws->has_sent_close ? -EPIPE : send_frame(ws, op, data, len);
}

size_t ws_pending(const struct http_ws *ws)
{
	return http_stream_pending(ws->req);
}

void ws_pause(struct http_ws *ws, bool on)
{
	http_body_pause(ws->req, on);
}

/* Sends what is buffered, then closes the connection. */
static void end_socket(struct http_ws *ws)
{
	ws->req->reply = REPLY_ENDED;
	conn_kick(ws->req->conn);
}

static void on_close_timer(struct loop *loop, void *arg)
{
	(void)loop;
	end_socket(arg);
}

void ws_close(struct http_ws *ws, unsigned code, const char *reason)
{
	char data[CONTROL_MAX + 1];
	size_t len = MIN(reason ? strlen(reason) : 0, CONTROL_MAX - 2);
	bool cut;

	if (ws->has_sent_close)
		return;
	data[0] = (char)(code >> 8);
	data[1] = (char)code;
	(void)snprintf(data + 2, len + 1, "%s", reason ? reason : "");
	len = utf8_valid_prefix(data + 2, len, &cut);
	(void)send_frame(ws, WS_CLOSE, data, code == CLOSE_NO_CODE ? 0 : len + 2);
	ws->has_sent_close = true;
	http_body_pause(ws->req, false); /* its answer must be read */
	loop_timer_set_in(ws->timer, CLOSE_WAIT_US);
}

static void fail(struct http_ws *ws, int r)
{
	ws_close(ws,
	         r == -EMSGSIZE ? CLOSE_TOO_LARGE
	         : r == -EILSEQ ? CLOSE_BAD_TEXT
	                        : CLOSE_PROTOCOL,
	         NULL);
	end_socket(ws);
}

static void on_close_frame(struct http_ws *ws, const char *data, size_t len)
{
	unsigned code = CLOSE_NO_CODE;

	if (len >= 2)
		code = (unsigned)(unsigned char)data[0] << 8 | (unsigned char)data[1];
	ws_close(ws, code, NULL);
	end_socket(ws);
}

static void on_frame(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len)
{
	switch (op) {
	case WS_CLOSE:
		on_close_frame(ws, data, len);
		break;
	case WS_PING:
		if (!ws->has_sent_close)
			(void)send_frame(ws, WS_PONG, data, len);
		break;
	case WS_TEXT:
	case WS_BINARY:
		if (!ws->has_sent_close)
			ws->ops->on_message(ws, op, data, len, ws->arg);
		break;
	case WS_PONG:
	case WS_CONTINUE:
		break;
	}
}

static void ws_on_data(struct http_req *req, struct buf *in)
{
	struct http_ws *ws = req->upgrade_arg;

	while (in->len > 0 && !req->is_body_paused && req->reply != REPLY_ENDED &&
	       http_stream_pending(req) < HTTP_HIGH_WATER) {
		const char *data;
		enum ws_opcode op;
		size_t len;
		int r = ws_decode(&ws->codec, in, &op, &data, &len);

		if (r == 0)
			return;
		if (r < 0)
			fail(ws, r);
		else
			on_frame(ws, op, data, len);
	}
	if (req->reply == REPLY_ENDED)
		buf_consume(in, in->len);
}

static void ws_on_drain(struct http_req *req)
{
	struct http_ws *ws = req->upgrade_arg;

	if (ws->ops->on_drain)
		ws->ops->on_drain(ws, ws->arg);
}

static void free_ws(struct loop *loop, void *arg)
{
	struct http_ws *ws = arg;

	(void)loop;
	ws_codec_done(&ws->codec);
	free(ws);
}

static void ws_on_gone(struct http_req *req)
{
	struct http_ws *ws = req->upgrade_arg;

	loop_timer_free(take_ptr(ws->timer));
	ws->has_sent_close = true;
	if (ws->ops->on_close)
		ws->ops->on_close(ws, ws->arg);
	loop_defer(http_loop(req), free_ws, ws);
}

static const struct http_tunnel_ops ws_upgrade = {ws_on_data, ws_on_drain, ws_on_gone};

static int check_upgrade(struct http_req *req, struct err *err)
{
	const char *upgrade = http_header(req, "Upgrade");
	const char *version = http_header(req, "Sec-WebSocket-Version");
	const char *key = http_header(req, "Sec-WebSocket-Key");
	unsigned char nonce[18];

	if (req->method != HTTP_GET || req->head.minor != 1 || !req->head.is_upgrade ||
	    !http_list_has(upgrade, "websocket"))
		return err_set(err, ERR_BAD_REQUEST, 0, "this path is for WebSocket clients");
	if (!version || strcmp(version, "13") != 0) {
		http_reply_header(req, "Sec-WebSocket-Version", "13");
		return err_set(err, ERR_BAD_REQUEST, 0, "the only WebSocket version is 13");
	}
	if (!key || http_head_count(&req->head, "Sec-WebSocket-Key") != 1 || strlen(key) != 24 ||
	    base64_decode(key, 24, nonce) != 16)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "Sec-WebSocket-Key is not 16 bytes in base64");
	return 0;
}

int ws_accept(struct http_req *req, const struct http_ws_ops *ops, void *arg, struct http_ws **ret,
              struct err *err)
{
	char accept[WS_ACCEPT_SIZE];
	struct http_ws *ws;
	int r = check_upgrade(req, err);

	if (r < 0)
		return r;
	ws_accept_key(http_header(req, "Sec-WebSocket-Key"), accept);
	http_reply_header(req, "Upgrade", "websocket");
	http_reply_header(req, "Connection", "Upgrade");
	http_reply_header(req, "Sec-WebSocket-Accept", accept);
	http_stream_start(req, 101, NULL, -1);
	ws = xnew0(struct http_ws);
	*ws = (struct http_ws){.req = req, .ops = ops, .arg = arg};
	ws->timer = loop_timer_new(http_loop(req), on_close_timer, ws);
	ws_codec_init(&ws->codec, /* is_server= */ true);
	req->conn->in.cap = WS_MESSAGE_MAX + FRAME_HEAD_MAX;
	http_tunnel(req, &ws_upgrade, ws);
	if (ops->outlasts_client)
		http_tunnel_outlasts_client(req);
	*ret = ws;
	return 0;
}
