// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * E2B's wire: what its SDKs say to a control plane, to `envd` in a sandbox (port 49983) and to the
 * code interpreter in one (49999). Here all three are this daemon. docs/compat.md tells what is
 * covered and what differs.
 *
 *	/sandboxes, /v2/…, /templates, /snapshots    control plane: a key, JSON, {code, message}
 *	/process.Process/…, /filesystem.Filesystem/…  envd: a sandbox's token, Connect-RPC in JSON
 *	/files, /health                              envd: plain HTTP
 *	/execute, /contexts                          interpreter: JSON lines, errors as text
 *
 * A sandbox's id is ours without its kind: it has to be a label of a host name.
 */
#include "compat/compat.h"

#define E2B_ENVD_PORT 49983
#define E2B_CODE_PORT 49999

/* error.c: the three ways to say that something failed, chosen by the path. */
bool e2b_owns(const struct http_req *req);
void e2b_fail(struct http_req *req, const struct err *err);
/* A Connect code for ours: "not_found". */
const char *e2b_rpc_code(enum err_code code);

/* sandboxes.c */
int e2b_kill_sandbox(struct http_req *req, struct err *err);
