// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a seal (seal.h) says of a chain, as compact JSON: where its head is and where what is kept
 * of it begins, at that time. A statement may also say that entries are missing on purpose:
 * retention has removed them before they were sent.
 */
#include "event/event.h"
#include "event/seal.h"

#define STATEMENT_MAX 2048

struct statement {
	const struct event_chain_status *chain;
	bool is_former;
	uint64_t at_us;
	bool has_gap; /* entries behind gap_after, up to the head, are gone */
	uint64_t gap_after;
};

/* Head, anchor and count, into an open object. */
void statement_put_chain(struct json_writer *w, const struct event_chain_status *chain);
must_check int statement_put(struct buf *out, const struct statement *s);
/* Appends the statement with its signature, as an object. */
must_check int statement_seal(struct json_writer *w, const struct statement *s,
                              const struct seal_key *key);
