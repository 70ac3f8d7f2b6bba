// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A reply about a sandbox that has to wait for the broker. It stands in place of the request, whose
 * client may leave meanwhile.
 */
#include "api/api.h"

struct sandbox_reply {
	struct http_req *req; /* NULL: the client is gone */
	int status;
	/* Told in the reply where the call could have made or started it. */
	bool tells_how, is_created, is_resumed;
	struct port_numbers ports; /* to be opened, and told with their tokens */
	bool is_undone;            /* what a client that has left cannot know of is deleted */
};

struct sandbox_reply *sandbox_reply_new(struct http_req *req, int status);
void sandbox_reply_free(struct sandbox_reply *a); /* unused */
/* A sandbox_done_fn, with the reply as its arg: replies and frees it. */
void sandbox_reply_send(struct sandbox *s, const struct err *err, void *arg);
