// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What changed from one text to another, as a unified diff: hunks with three lines of context. */
#include "base/buf.h"

#include <stdbool.h>

/* No NUL and valid UTF-8. */
bool patch_is_text(const char *data, size_t len);
/* Appends the hunks, none for equal texts. -E2BIG: they do not fit, and out is as before. Texts
 * that have little in common are told as one hunk that replaces what differs. */
must_check int patch_make(const char *old, size_t old_len, const char *now, size_t now_len,
                          struct buf *out);
