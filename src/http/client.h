// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An HTTP client for programs that may block: the CLI and tests. It has one connection and sends
 * one request at a time. The connection is kept alive between requests, and made anew when the
 * server has closed it.
 *
 *	open --> send --> head --> read until 0 --> send …
 *	open --> ws_open --> ws_send, ws_recv …
 *
 * Calls wait for the server. They return -EINTR when a signal comes; then the same call may be made
 * again. (http_client_send() goes on by itself.) Only one thread at a time may use a client.
 */
#include "http/parse.h"
#include "http/target.h"
#include "http/websocket.h"

struct http_client;

/* url: "unix:/path", "http://host[:port]", "https://host[:port]" (ports 80 and 443; the certificate
 * is verified against the system's store or $SSL_CERT_FILE). Connects. */
must_check int http_client_open(const char *url, struct http_client **ret, struct err *err);
void http_client_close(struct http_client *c); /* NULL is fine */
DEFINE_FREEP(struct http_client, http_client_close)
/* From now on waiting for the server ends at this time of the steady clock, with -ETIMEDOUT; 0, the
 * default, means never. http_client_head() may be called again after that. */
void http_client_set_deadline(struct http_client *c, uint64_t at_us);

/* Fills data with up to size bytes of the body. Returns their number, 0 at its end, or < 0 with err
 * set. */
typedef ssize_t (*http_source_fn)(void *arg, char *data, size_t size, struct err *err);

struct http_send {
	const char *method;
	const char *path; /* with query, percent-encoded: http_escape() */
	const struct http_field *fields;
	size_t n_fields;
	const char *content_type; /* NULL = none */
	const void *data;         /* the body, unless source is set */
	size_t len;
	http_source_fn source; /* streams the body … */
	void *source_arg;
	int64_t source_len; /* … of this length; -1 = not known, sent in chunks */
};

/*
 * Sends a whole request. If the last reply was not read to its end, it is dropped together with its
 * connection. If the server answers before it has taken the body, sending stops, and the answer can
 * be read.
 */
must_check int http_client_send(struct http_client *c, const struct http_send *send,
                                struct err *err);
must_check int http_client_head(struct http_client *c, int *ret_status, struct err *err);
/* A field of the last head, in any case; NULL if absent. Borrowed until the next send. */
const char *http_client_header(const struct http_client *c, const char *name);
/* Reads body bytes without the framing. Returns their number, 0 at the end, or < 0 if broken;
 * -EPROTO when the server closed before the end of the body. */
must_check ssize_t http_client_read(struct http_client *c, void *data, size_t size);
/* The rest of the body into out; -E2BIG past its cap. */
must_check int http_client_read_all(struct http_client *c, struct buf *out);

/*
 * Upgrades the connection. -EPROTO when the server's answer was not 101: the answer can then be
 * read as usual (*ret_status is set; 0 if there was none).
 */
must_check int http_client_ws_open(struct http_client *c, const char *path,
                                   const struct http_field *fields, size_t n_fields,
                                   int *ret_status, struct err *err);
must_check int http_client_ws_send(struct http_client *c, enum ws_opcode op, const void *data,
                                   size_t len);
/*
 * 1: a TEXT or BINARY message, borrowed until the next call; 0: the server has closed; -EAGAIN: no
 * whole message is there and wait is false; other < 0: broken. Pings are answered inside.
 */
must_check int http_client_ws_recv(struct http_client *c, bool wait, enum ws_opcode *op,
                                   const char **data, size_t *len);
/* Tells the server that nothing more comes. Call http_client_ws_recv() until 0 to get its last
 * messages. */
must_check int http_client_ws_close(struct http_client *c, unsigned code, const char *reason);

/* For poll() beside other fds. Call http_client_ws_recv() without wait until -EAGAIN before each
 * poll(): bytes may already have been read from it. */
int http_client_fd(const struct http_client *c);
