// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The client's side for programs that may block: the CLI and tests. One connection, one request at
 * a time, kept alive between them and made anew when the server has closed it.
 *
 *	open --> send --> head --> read until 0 --> send …
 *	open --> ws_open --> ws_send, ws_recv …
 *
 * Calls wait for the server and give -EINTR when a signal came instead, after which the same call
 * may be made again (http_client_send() excepted: it goes on by itself). One thread at a time.
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
/* From now on a wait for the server ends at this moment of the steady clock, with -ETIMEDOUT; 0 =
 * never, as at first. http_client_head() may be called again after that. */
void http_client_set_deadline(struct http_client *c, uint64_t at_us);

/* Fills data with up to size bytes of the body: their number, 0 at its end, < 0 with err set. */
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
 * Sends a request whole. What is left unread of the last reply is dropped, with its connection. If
 * the server answers before it has taken the body, sending stops and the answer is there to be
 * read.
 */
must_check int http_client_send(struct http_client *c, const struct http_send *send,
                                struct err *err);
must_check int http_client_head(struct http_client *c, int *ret_status, struct err *err);
/* Of the last head; borrowed until the next send. Any case; NULL if absent. */
const char *http_client_header(const struct http_client *c, const char *name);
/* Body bytes with the framing taken off: their number, 0 = its end, < 0 = broken; -EPROTO where the
 * server's end came before the body's. */
must_check ssize_t http_client_read(struct http_client *c, void *data, size_t size);
/* The rest of the body into out; -E2BIG past its cap. */
must_check int http_client_read_all(struct http_client *c, struct buf *out);

/*
 * Upgrades the connection. -EPROTO when the server answered something else than 101: the answer can
 * then be read as usual (*ret_status is set; 0 if there was none).
 */
must_check int http_client_ws_open(struct http_client *c, const char *path,
                                   const struct http_field *fields, size_t n_fields,
                                   int *ret_status, struct err *err);
must_check int http_client_ws_send(struct http_client *c, enum ws_opcode op, const void *data,
                                   size_t len);
/*
 * 1: a TEXT or BINARY message, borrowed until the next call; 0: the server has closed; -EAGAIN:
 * nothing whole is there and wait is false; other < 0: broken. Pings are answered inside.
 */
must_check int http_client_ws_recv(struct http_client *c, bool wait, enum ws_opcode *op,
                                   const char **data, size_t *len);
/* Tells the server that nothing more comes; go on with http_client_ws_recv() until 0 to hear it
 * out. */
must_check int http_client_ws_close(struct http_client *c, unsigned code, const char *reason);

/* For poll() beside other fds. Call http_client_ws_recv() without wait until -EAGAIN before each
 * poll(): bytes may already have been read from it. */
int http_client_fd(const struct http_client *c);
