// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A command's output as Vercel's NDJSON. */
#include "sandbox/exec/exec.h"

struct http_req;

/* tells_command: with the command as the first and last record. */
void command_stream(struct http_req *req, struct exec *e, const char *session_id,
                    bool tells_command);
/* Why a command never ran. */
void command_refuse(struct http_req *req, const struct err *err);
