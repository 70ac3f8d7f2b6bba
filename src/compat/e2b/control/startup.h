// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What sandboxes of a template that was built by this wire come with: its start command, which runs
 * from the first moment on, and its sizes. A create is answered when the ready command succeeds.
 * (E2B has it run once, at the end of the build, and keeps the memory; here each create starts it,
 * which works on every engine and host.)
 */
#include "compat/e2b/control/pending_reply.h"

/* What the template's builder said, or NULL. */
const json_t *startup_notes(const struct http_req *req, const char *template);
/* Its sizes, within what this daemon gives. */
void startup_limits(const struct http_req *req, const json_t *notes, struct guest_limits *ret);
/* Sends the later when the sandbox is ready, or deletes it and sends why it is not. */
void startup_run(struct sandbox *s, const json_t *notes, struct pending_reply *l);
