// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Sandboxes and times as E2B's clients expect them. */
#include "compat/e2b/frame/find.h"
#include "compat/e2b/frame/notes.h"

/* The version of E2B's envd that has the features of ours: clients decide by it what they use. */
#define E2B_ENVD_VERSION "0.6.13"

#define E2B_TIME_SIZE 40
void e2b_time(uint64_t wall_us, char ret[E2B_TIME_SIZE]); /* RFC 3339, UTC */
void e2b_put_time(struct json_writer *w, const char *name, uint64_t wall_us);

/* The answer to a create: the sandbox's id and its token. */
void e2b_put_sandbox(const struct http_req *req, const struct sandbox *s, struct json_writer *w,
                     const char *name);
/* As in lists. */
void e2b_put_listed(const struct sandbox *s, struct json_writer *w, const char *name);
/* With all details. */
void e2b_put_detail(const struct http_req *req, const struct sandbox *s, struct json_writer *w);
/* "running" or "paused". */
const char *e2b_state(const struct sandbox *s);
uint64_t e2b_started_us(const struct sandbox *s);
const char *e2b_template(const struct sandbox *s);
