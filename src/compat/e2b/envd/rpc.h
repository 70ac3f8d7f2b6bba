// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Connect's protocol with JSON. A unary call is a JSON body and a JSON reply. A stream is a series
 * of envelopes: a byte of flags, four bytes of length (big-endian), a JSON message; the last one
 * has END set and says how it ended. Nothing is ever compressed.
 */
#include "compat/e2b/envd/envd.h"

#define RPC_ENVELOPE_HEAD 5
#define RPC_FLAG_END      0x02
#define RPC_MESSAGE_MAX   ((size_t)4 * 1024 * 1024)

/* 1: data is exactly one envelope, and *ret is its message, which the caller owns (an empty payload
 * is an empty object); 0: more bytes are needed; < 0: it is malformed. */
must_check int rpc_envelope_read(const void *data, size_t len, json_t **ret, struct err *err);
/* The same, with more behind it; *ret_size: bytes of the envelope. */
must_check int rpc_envelope_next(const void *data, size_t len, json_t **ret, size_t *ret_size,
                                 struct err *err);

/* Called with a stream's request when all of it has come. Its result and err are handled as for any
 * route. */
typedef int (*rpc_fn)(struct http_req *req, const struct envd_caller *caller, const json_t *message,
                      struct err *err);
/* Checks the caller and the body's type. 0: go on; else it is answered, or is being resumed, and
 * the handler returns that. */
must_check int rpc_admit(struct http_req *req);
/* Checks the caller, collects the one envelope of the request's body, then calls fn; a failure is
 * sent as a stream that ends with an error. */
int rpc_take(struct http_req *req, rpc_fn fn);

/* Sends one message, or the end. The head goes out with the first. */
must_check int rpc_send(struct http_req *req, const struct buf *json);
void rpc_end(struct http_req *req, const struct err *err); /* err NULL: all is well */
/* The same with a code of Connect's. */
void rpc_end_with(struct http_req *req, const char *code, const char *message);
/* The client's timeout in milliseconds; 0 = none. */
must_check int rpc_timeout_ms(const struct http_req *req, uint64_t *ret, struct err *err);
/* How long a stream may be silent before a keepalive is due. */
uint64_t rpc_keepalive_us(const struct http_req *req);
void rpc_reply_empty(struct http_req *req); /* {} */
