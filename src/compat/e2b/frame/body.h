// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * JSON bodies of E2B's clients: unknown fields are ignored, null counts as absent, and an absent
 * field leaves *ret as it was. Strings are borrowed from the body. RPC fields come in
 * lowerCamelCase or snake_case, and numbers as such or as strings.
 */
#include "base/json/json.h"

must_check int body_text(const json_t *body, const char *name, const char **ret, struct err *err);
must_check int body_bool(const json_t *body, const char *name, bool *ret, struct err *err);
/* *ret_given (or NULL): whether it was there. Below 0 gives INT64_MIN..-1, never an error. */
must_check int body_int(const json_t *body, const char *name, int64_t *ret, bool *ret_given,
                        struct err *err);
must_check int body_object(const json_t *body, const char *name, const json_t **ret,
                           struct err *err);
must_check int body_array(const json_t *body, const char *name, const json_t **ret,
                          struct err *err);
/* An object all of whose values are strings. */
must_check int body_strings(const json_t *body, const char *name, const json_t **ret,
                            struct err *err);
const json_t *body_get(const json_t *body, const char *name); /* NULL: absent or null */
/* Standard or URL-safe alphabet, padded or not. The caller owns *ret. */
must_check int body_base64(const char *text, const char *field, char **ret, size_t *ret_len,
                           struct err *err);
