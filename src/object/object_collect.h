// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which objects nobody needs. Pure: no clock, no I/O.
 *
 * Who collects lists the objects first, and reads the rows and their manifests after that. An
 * object is needed if a manifest that a row names has it. What is not needed may be of an upload
 * that has written no row yet. So it is kept for GRACE behind its last write, and an upload that
 * finds a chunk there already must write it once more if it is older than FRESH: else a chunk that
 * is about to be collected would be counted on. An upload ends, or fails, within its own time.
 *
 *	|-- fresh --|-- write it again --|            collected
 *	0         FRESH                GRACE - UPLOAD … GRACE
 */
#include "base/digest.h"

#define OBJECT_HOUR_US  UINT64_C(3600000000)
#define OBJECT_GRACE_US (24 * OBJECT_HOUR_US)
#define OBJECT_UPLOAD_US                                                                           \
	(6 * OBJECT_HOUR_US)           /* the most from an upload's first chunk to its row         \
	                                */
#define OBJECT_SKEW_US  OBJECT_HOUR_US /* between the store's clock and ours */
#define OBJECT_FRESH_US (OBJECT_GRACE_US - OBJECT_UPLOAD_US - OBJECT_SKEW_US)

struct object_row { /* of a listing */
	struct digest name;
	uint64_t written_us; /* by the store's clock */
};

/* Whether an upload may count on an object that is there. */
bool object_is_fresh(uint64_t written_us, uint64_t now_us);
/* Sorts needed by name, and moves the rows that may be removed to the front; returns their
 * number. began_us: when the listing began, by our clock. is_whole: every manifest that a row names
 * was read. If not, nothing is removed: what could not be read may need any of them. */
size_t object_collect(struct object_row *rows, size_t n, struct digest *needed, size_t n_needed,
                      uint64_t began_us, bool is_whole);
