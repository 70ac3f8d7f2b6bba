// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The MCP server: sandboxes as tools of a model, at /mcp (streamable HTTP). `cloche mcp` forwards
 * what it reads from stdin to it, so both transports have one implementation.
 *
 *	POST /mcp --> rpc_read() --> method --> a call --> its tool --> result
 *	                                     |
 *	                                  session --> its sandbox, made when first needed
 *
 * All of it is called on the loop's thread and none of it blocks.
 */
#include "api/api.h"

struct mcp;

struct mcp *mcp_new(struct api *api); /* sets api->mcp */
/* The daemon stops: open streams end, and the next daemon takes up the sessions. */
void mcp_close(struct mcp *m);
void mcp_free(struct mcp *m); /* NULL is fine; the HTTP server is gone before */

const struct http_route *mcp_routes(size_t *ret_n);
