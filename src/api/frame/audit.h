// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The audit log: for each request that was a write or has read content, who asked for what, from
 * where, and how it was answered. Writes that have made an entry of the event log are told there,
 * with the same who and where, and not once more; a read is always told here. What passes through a
 * preview or a port is traffic of the sandbox and is not told request by request.
 */
#include "http/server.h"

enum audit {              /* of struct http_route */
	     AUDIT_USUAL, /* a write, unless its method is GET and its scope that of reads */
	     AUDIT_READ,  /* it gives out content: files, output, archives */
	     AUDIT_TOOL,  /* where it calls a tool (JSON-RPC): a write, or a read if that one only
	                     reads */
	     AUDIT_NONE   /* it changes nothing and tells no content */
};

void audit_request(const struct http_req *req, const struct http_outcome *o);
