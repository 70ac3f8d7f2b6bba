// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A list's cursor: the last id of a page, as base64url, so that clients take it as it is and build
 * none themselves. */
#include "base/err.h"
#include "base/id.h"

#define CURSOR_SIZE 64 /* room for any and its NUL */

void cursor_make(const char *id, char ret[CURSOR_SIZE]);
must_check int cursor_parse(const char *text, const char *kind, char ret_id[ID_SIZE],
                            struct err *err);
