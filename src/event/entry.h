// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An entry's one form. The same bytes are hashed when it is written, and shown to whoever reads it:
 * compact JSON, the fields in the order of struct event_row, null for what there is none of.
 */
#include "base/buf.h"
#include "store/tables/events.h"

#define ENTRY_LINE_MAX 8192 /* EVENT_DATA_MAX and all ids, with room */

/* Appends the entry's line. Where it is to be hashed, up to the comma before "hash". */
must_check int entry_put(struct buf *out, const struct event_row *row, bool with_hash);
/* Links the entry to the one whose hash is row->prev; gives the line's length. */
size_t entry_seal(struct event_row *row);
