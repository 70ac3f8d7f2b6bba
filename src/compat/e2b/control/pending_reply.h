// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A reply that has to wait for a sandbox. */
#include "api/frame/late_reply.h"
#include "compat/e2b/frame/objects.h"

struct pending_reply {
	struct late_reply late;
	int status;
	void (*reply)(struct http_req *req, int status, struct sandbox *s);
	uint64_t timeout_ms; /* of its life from then on */
	bool is_cold;        /* it is resumed without its memory */
	bool is_started;     /* its template has a start command, perhaps */
	bool is_undone;      /* what a client that has left cannot know of is deleted */
};

struct pending_reply *pending_reply_new(struct http_req *req, int status,
                                        void (*reply)(struct http_req *req, int status,
                                                      struct sandbox *s));
/* A sandbox_done_fn, with the reply as its arg: replies and frees it. */
void pending_reply_send(struct sandbox *s, const struct err *err, void *arg);
/* For `reply`: only the status; and the sandbox. */
void pending_reply_nothing(struct http_req *req, int status, struct sandbox *s);
void pending_reply_sandbox(struct http_req *req, int status, struct sandbox *s);
