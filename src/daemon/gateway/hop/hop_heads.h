// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Heads of hops are never passed on as they came: the strict parser has read them, and they are
 * written anew, field by field, without those of one connection. So the two nodes cannot understand
 * a message differently. */
#include "http/parse.h"
#include "http/server.h"

/* How the body goes: as it came, or otherwise. */
struct hop_body {
	bool is_held;     /* until the peer asks for it */
	bool is_placed;   /* it is a create, and the peer was chosen for it */
	const char *find; /* it is a question whether the peer has that (hop_find.h); or NULL */
	const char *data; /* of one that has been read; NULL: it follows */
	size_t len;
};
/* -E2BIG, -EINVAL */
must_check int hop_heads_request(const struct http_req *req, const struct hop_body *body,
                                 struct buf *out);
/* Puts the fields of the peer's answer into the reply. */
void hop_heads_reply(struct http_req *req, const struct http_head *head);
