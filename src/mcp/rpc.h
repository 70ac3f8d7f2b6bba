// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * JSON-RPC messages of MCP, in both of its eras. The older era (up to 2025-11-25) opens a session
 * with `initialize`. The newer one (2026-07-28) has no sessions, and each request gives its version
 * in params._meta. No I/O; fuzzed. Parsed values are borrowed from the body. `cloche mcp` links
 * this too.
 */
#include "base/json/json.h"

#define RPC_VERSION_MODERN "2026-07-28"
#define RPC_VERSION_LEGACY "2025-11-25" /* the newest that has a handshake */
#define RPC_TEXT_MAX       256          /* of an id, a method, a name */

enum rpc_code { /* all are below zero */
	        RPC_PARSE = -32700,
	        RPC_INVALID_REQUEST = -32600,
	        RPC_NO_METHOD = -32601,
	        RPC_INVALID_PARAMS = -32602,
	        RPC_INTERNAL = -32603,
	        RPC_NO_SESSION = -32001,
	        RPC_HEADER_MISMATCH = -32020,
	        RPC_NO_VERSION = -32022,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc_message {
	enum rpc_kind kind;
	const json_t *id; /* a string or an integer; NULL if it is not a request */
	const char *method;
	const json_t *params;         /* an object, or NULL */
	const char *version;          /* by params._meta: of the newer era; NULL = the older one */
	const json_t *progress_token; /* or NULL */
};

/* Returns 0, or an enum rpc_code with err set. For a wrong request *ret has the id if there is
 * one. */
must_check int rpc_read(const json_t *body, struct rpc_message *ret, struct err *err);
/* The version to answer `initialize` with. */
const char *rpc_pick_version(const json_t *params);
/* params.NAME if it is a string, else NULL. */
const char *rpc_param(const struct rpc_message *m, const char *name);

/* Opens {"jsonrpc", "id"}; id NULL writes null. */
void rpc_open(struct json_writer *w, const json_t *id);
/* Writes a complete error; hint may be NULL. RPC_NO_VERSION lists the supported versions. */
must_check int rpc_put_error(struct buf *out, const json_t *id, int code, const char *message,
                             const char *hint);
