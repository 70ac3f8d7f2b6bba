// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What sandboxes of a template that was built by this API have: its start command, which runs from
 * the start, and its sizes. A create is answered when the ready command succeeds. (E2B runs it
 * once, at the end of the build, and keeps the memory; here each create starts it, which works on
 * every engine and host.)
 */
#include "compat/e2b/control/pending_reply.h"

/* The notes from the template's build, or NULL. */
const json_t *startup_notes(const struct http_req *req, const char *template);
/* Its sizes, within this daemon's limits. */
void startup_limits(const struct http_req *req, const json_t *notes, struct guest_limits *ret);
/* Sends the reply when the sandbox is ready; else deletes the sandbox and replies with the
 * error. */
void startup_run(struct sandbox *s, const json_t *notes, struct pending_reply *l);
