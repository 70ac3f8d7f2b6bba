// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A list's cursor: the last id of a page, as base64url, so that clients take it as it is and build
 * none themselves. In a cluster it has the time of that one, too ("ID/MICROSECONDS"): other nodes
 * do not know the id, and go on behind the time.
 */
#include "base/err.h"
#include "base/id.h"

#define CURSOR_SIZE 96 /* room for any and its NUL */

void cursor_make(const char *id, char ret[CURSOR_SIZE]);
void cursor_make_at(const char *id, uint64_t us, char ret[CURSOR_SIZE]);
/* *ret_us is 0 for one without a time. */
must_check int cursor_parse_at(const char *text, const char *kind, char ret_id[ID_SIZE],
                               uint64_t *ret_us, struct err *err);
/* The id alone. */
must_check int cursor_parse(const char *text, const char *kind, char ret_id[ID_SIZE],
                            struct err *err);
