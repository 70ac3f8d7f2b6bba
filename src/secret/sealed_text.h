// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A credential that is no secret by name, sealed in its place of a row: a webhook's own secret, and
 * a policy with values in it. It is one text, "sealed:KEY:WRAPPED:SEALED" (envelope.h), so a column
 * or a field that had the plain text has this instead. The label says whose it is, so that it opens
 * there alone. Rows of older versions have the plain text: who reads one writes it anew.
 */
#include "secret/envelope.h"

bool sealed_text_is(const char *text);
/* For free(). NULL: it cannot be sealed. */
char *sealed_text_make(const struct master_keys *keys, const char *label, const char *text,
                       size_t len);
/* *ret is for sealed_text_wipe(). *ret_stale: it was sealed under another key than the first, and
 * is to be written anew. Errors as of envelope_open(). */
must_check int sealed_text_open(const struct master_keys *keys, const char *label, const char *text,
                                char **ret, bool *ret_stale);
void sealed_text_wipe(char **text); /* overwrites and frees it; of NULL is fine */
