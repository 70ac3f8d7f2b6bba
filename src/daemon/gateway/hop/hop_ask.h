// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A client's GET, asked of a peer for this gateway's own use: the answer is read whole, as JSON. It
 * bears the client's own credential, as each hop does, and goes over the same kept streams.
 */
#include "daemon/gateway/hop/hop.h"
#include "http/parse.h"

struct hop_ask;

/* body NULL: there is no answer, and why says it. Both are borrowed. */
typedef void (*hop_ask_fn)(json_t *body, const struct http_head *head, const char *why, void *arg);

/* req: only until this returns. fn is called once, never from inside, unless hop_ask_free() came
 * first. */
struct hop_ask *hop_ask_new(struct hops *h, const struct http_req *req, uint32_t node,
                            hop_ask_fn fn, void *arg);
void hop_ask_free(struct hop_ask *a); /* NULL is fine; also from inside of fn */
