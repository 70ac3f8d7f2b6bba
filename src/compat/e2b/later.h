// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A reply that has to wait for a sandbox. It stands in place of the request, whose client may leave
 * meanwhile. */
#include "compat/e2b/shape.h"

struct later {
	struct http_req *req; /* NULL: the client is gone */
	int status;
	void (*reply)(struct http_req *req, int status, struct sandbox *s);
	uint64_t timeout_ms; /* of its life from then on */
	bool is_cold;        /* it is to go on without its memory */
	bool is_started;     /* its template has a start command, perhaps */
	bool is_undone;      /* what a client that has left cannot know of is deleted */
};

struct later *later_new(struct http_req *req, int status,
                        void (*reply)(struct http_req *req, int status, struct sandbox *s));
void later_free(struct later *l); /* unused */
/* A sandbox_done_fn, with the later as its arg: replies and frees it. */
void later_send(struct sandbox *s, const struct err *err, void *arg);
/* For `reply`: nothing but the status; and who it is. */
void later_nothing(struct http_req *req, int status, struct sandbox *s);
void later_sandbox(struct http_req *req, int status, struct sandbox *s);
