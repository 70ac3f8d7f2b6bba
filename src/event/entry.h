// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The text form of an entry: compact JSON, the fields in a fixed order, null for absent values. The
 * same bytes are hashed when it is written and shown to readers.
 */
#include "base/buf.h"
#include "store/tables/events.h"

#define ENTRY_LINE_MAX 8192 /* EVENT_DATA_MAX and all ids, with room */

enum entry_form {
	ENTRY_PLAIN,
	ENTRY_COVERED, /* only what is hashed: it stops at the comma before "hash" */
	ENTRY_FORMER   /* of the former chain: entries had neither "from" nor "agent" */
};
/* Appends the entry's line. */
must_check int entry_put(struct buf *out, const struct event_row *row, enum entry_form form);
/* Adds the entry's place to its line, behind what is hashed. */
must_check int entry_put_place(struct buf *line, uint64_t place);
/* Computes the hash of the entry, whose predecessor has the hash row->prev. Returns the line's
 * length. */
size_t entry_seal(struct event_row *row);
