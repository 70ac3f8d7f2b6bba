// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A reply about a sandbox that has to wait for the broker.
 */
#include "api/api.h"
#include "api/frame/late_reply.h"

struct sandbox_reply {
	struct late_reply late;
	int status;
	/* Told in the reply where the call could have made or started it. */
	bool tells_how, is_created, is_resumed;
	struct port_numbers ports; /* to be opened, and told with their tokens */
	bool is_undone;            /* what a client that has left cannot know of is deleted */
};

struct sandbox_reply *sandbox_reply_new(struct http_req *req, int status);
/* A sandbox_done_fn, with the reply as its arg: replies and frees it. */
void sandbox_reply_send(struct sandbox *s, const struct err *err, void *arg);
