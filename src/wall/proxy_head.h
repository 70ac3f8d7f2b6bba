// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Heads of HTTP messages on their way through: parses what a request is for, as the judge sees it,
 * and writes exactly that anew. Fields of a single connection stop here, and the wall sets the
 * framing of the body, so that no two servers can split the bytes differently.
 */
#include "http/parse.h"
#include "net/policy/judge.h"
#include "net/policy/scrub.h"

struct proxy_request {
	struct host host;  /* by its target, or its Host field, which agree */
	uint16_t port;     /* said with it, or 0 */
	struct path path;  /* owned */
	const char *query; /* borrowed from the head, or NULL */
	bool is_upgrade;   /* to WebSocket */
	struct judge_header headers[HTTP_FIELDS_MAX];
	struct judge_request judge; /* the whole request, for the judge */
};

/* Returns 0, or the HTTP status that refuses it, with why. h must live as long as *ret is used. */
must_check int proxy_request_read(const struct http_head *h, struct proxy_request *ret,
                                  const char **why);
void proxy_request_done(struct proxy_request *r);

/* What the rule changes in a request. All zeros: nothing. */
struct proxy_rewrite {
	const struct policy_header *set; /* fields that replace the guest's own */
	size_t n_set;
	const struct url *forward; /* where it goes instead; the target is told its original host */
	bool is_from_tls;
	uint16_t from_port;
	const char *sandbox_id;
	bool is_plain; /* the reply must be complete and not encoded, to be scrubbed */
};
must_check int proxy_request_write(struct buf *out, const struct http_head *h,
                                   const struct proxy_request *r, const struct proxy_rewrite *how);

/* Lines of what may pass of the fields behind a body. how: as in its request, or all zeros. */
must_check int proxy_trailers_write(struct buf *out, const struct http_head *h,
                                    const struct proxy_rewrite *how, const struct scrub *scrub);

struct proxy_reply_form {
	bool is_chunked;           /* what the guest gets */
	bool is_last;              /* its connection closes after it */
	bool is_upgrade;           /* to WebSocket */
	const struct scrub *scrub; /* what fields may not repeat, or NULL */
};
/* Whether the body is encoded, so that nothing can be found in it. */
bool proxy_response_is_encoded(const struct http_head *h);
must_check int proxy_response_write(struct buf *out, const struct http_head *h,
                                    const struct proxy_reply_form *form);
