// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The text form of an entry: compact JSON, the fields in the order of struct event_row, null for
 * absent values. The same bytes are hashed when it is written and shown to readers.
 */
#include "base/buf.h"
#include "store/tables/events.h"

#define ENTRY_LINE_MAX 8192 /* EVENT_DATA_MAX and all ids, with room */

/* Appends the entry's line. Without the hash it stops at the comma before "hash": that part is
 * hashed. */
must_check int entry_put(struct buf *out, const struct event_row *row, bool with_hash);
/* Computes the hash of the entry, whose predecessor has the hash row->prev. Returns the line's
 * length. */
size_t entry_seal(struct event_row *row);
