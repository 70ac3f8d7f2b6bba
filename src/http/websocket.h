// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * WebSocket (RFC 6455), both roles, no extensions. The codec has no I/O (ws_decode, ws_encode) and
 * is fuzzed; ws_accept() puts it on a server request, http/client.h on a client's.
 */
#include "http/server.h"

enum ws_opcode {
	WS_CONTINUE = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10
};
#define WS_MESSAGE_MAX ((size_t)1024 * 1024)

struct ws_codec {               /* reading state of one direction */
	bool is_server;         /* frames must be masked */
	enum ws_opcode message; /* opcode of the message being gathered, 0 = none */
	struct buf data;
};
void ws_codec_init(struct ws_codec *c, bool is_server);
void ws_codec_done(struct ws_codec *c);
/*
 * Takes one frame from the front of in (unmasking it there). 1: a whole message or control frame in
 * *op, *data, valid until the next call; 0: more bytes needed; -EPROTO, -EMSGSIZE, -EILSEQ: fail
 * the connection with close code 1002, 1009, 1007.
 */
must_check int ws_decode(struct ws_codec *c, struct buf *in, enum ws_opcode *op, const char **data,
                         size_t *len);
/* Appends one frame; mask is NULL for the server's side. */
must_check int ws_encode(struct buf *out, enum ws_opcode op, const void *data, size_t len,
                         const unsigned char mask[4]);

/* The answer to a Sec-WebSocket-Key. */
#define WS_ACCEPT_SIZE 29
void ws_accept_key(const char *key, char ret[WS_ACCEPT_SIZE]);

struct http_ws_ops {
	void (*on_message)(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
	                   void *arg); /* TEXT or BINARY */
	void (*on_drain)(struct http_ws *ws, void *arg);
	void (*on_close)(struct http_ws *ws, void *arg); /* exactly once; ws is freed after it */
	/* What a client sent before it left, with or without a close frame, comes before
	 * on_close(). While ws_pause() is on, the last message is taken to be not through yet. */
	bool outlasts_client;
};
/* Answers 101. Fails with err when the request is not a valid upgrade. (The router has already
 * refused a foreign Origin.) Pings are answered inside. */
must_check int ws_accept(struct http_req *req, const struct http_ws_ops *ops, void *arg,
                         struct http_ws **ret, struct err *err);
must_check int ws_send(struct http_ws *ws, enum ws_opcode op, const void *data, size_t len);
size_t ws_pending(const struct http_ws *ws);
void ws_pause(struct http_ws *ws, bool on); /* stops reading the client; see http_body_pause() */
/* Sends a close frame. No message comes after it; on_close() is called once the client has answered
 * or time is up.
 */
void ws_close(struct http_ws *ws, unsigned code, const char *reason);
