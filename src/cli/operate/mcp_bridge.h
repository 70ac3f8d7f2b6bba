// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Between an MCP client that talks to our stdin and stdout, and the daemon's /mcp. The daemon does
 * all the work; here one session is kept for the client, whichever era it speaks, and ended with
 * it.
 */
#include "cli/remote/remote.h"

/* path: of the daemon's endpoint, with the query that says what sandboxes are to be. Until stdin
 * ends. */
must_check int mcp_bridge_run(const struct remote *remote, const char *path, struct err *err);
