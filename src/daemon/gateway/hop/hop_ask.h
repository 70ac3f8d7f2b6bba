// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sends a client's GET, or a question about what it names, to a peer, and reads the whole answer as
 * JSON for this gateway's own use. Like each hop it carries the client's own credential, and uses
 * the same kept streams.
 */
#include "daemon/gateway/hop/hop.h"
#include "http/parse.h"

struct hop_ask;

/* body NULL: there is no answer, and why says it. Both are borrowed. */
typedef void (*hop_ask_fn)(json_t *body, const struct http_head *head, const char *why, void *arg);

/* words: of a question whether the peer has something (hop_find.h); NULL: the client's own GET. req
 * and words: only until this returns. fn is called once, never from inside, unless hop_ask_free()
 * came first. */
struct hop_ask *hop_ask_new(struct hops *h, const struct http_req *req, uint32_t node,
                            const char *words, hop_ask_fn fn, void *arg);
void hop_ask_free(struct hop_ask *a); /* NULL is fine; also from inside of fn */
