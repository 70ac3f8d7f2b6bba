// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A reply that comes later, from the loop. Its client may leave meanwhile; then there is nobody to
 * answer. A reply that has to remember more is a struct of its own that begins with this one.
 */
#include "http/server.h"

struct late_reply {
	struct http_req *req; /* NULL: the client is gone */
};

/* Zeroed, of that size. The caller owns it until one of the calls below. */
void *late_reply_new(struct http_req *req, size_t size);
/* Frees one that is not needed: the router answers. Gives r. */
int late_reply_drop(void *late, int r);
/* Frees it when the time has come: gives the request to answer, or NULL where the client is gone
 * or has been told of err. */
struct http_req *late_reply_take(void *late, const struct err *err);
