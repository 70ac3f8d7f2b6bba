// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * JSON, both ways. For reading there is a strict parser (UTF-8, no duplicate keys, no NUL, a depth
 * limit) that makes jansson's values, and a table of the fields that a body may have, so that each
 * mistake is reported with the field's name. Writing is a small stream writer into a buf: output is
 * never built as a tree.
 */
#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

#define JSON_DEPTH_MAX          32
#define JSON_REQUEST_VALUES_MAX 65536 /* in a client's text: 15 to 40 ms of loop time */

#define auto_json __attribute__((cleanup(json_decrefp)))

/* A whole JSON text whose top is an object or an array. On success the caller owns *ret. */
must_check int json_parse(const char *text, size_t len, json_t **ret, struct err *err);
/* The same for a text from outside. A value may take fifty times the memory of its text ("[],[],"),
 * and much time. So a text with more than values_max values is refused as too large. */
must_check int json_parse_up_to(const char *text, size_t len, size_t values_max, json_t **ret,
                                struct err *err);

/* Where a field's value goes. Strings are borrowed from the json_t and are valid UTF-8 without NUL.
 */
enum json_kind {
	JSON_FIELD_STRING, /* const char **; min..max bounds its bytes */
	JSON_FIELD_U64,    /* uint64_t *; min..max */
	JSON_FIELD_DOUBLE, /* double *; min..max */
	JSON_FIELD_BOOL,   /* bool * */
	JSON_FIELD_OBJECT, /* json_t **, borrowed */
	JSON_FIELD_ARRAY,  /* json_t **, borrowed; min..max bounds its length */
	JSON_FIELD_ANY,    /* json_t **, borrowed */
};

struct json_field {
	const char *name;
	enum json_kind kind;
	void *ret;
	bool required;
	bool *ret_given;   /* optional: set to whether the field was there and not null */
	uint64_t min, max; /* max 0 = the kind's own most (strings: 64 KiB; arrays: 1024) */
};

/*
 * Reads an object by its table. Unknown fields are refused with the nearest name that there is,
 * null counts as absent, and what is absent leaves *ret as it was. prefix names the object in
 * errors ("limits." or "").
 */
must_check int json_read(const json_t *object, const char *prefix, const struct json_field *fields,
                         size_t n, struct err *err);

/* Writing. Errors stick: json_writer_end() tells, once, whether the buf's cap was passed. */
struct json_writer {
	struct buf *out;
	int error;
	unsigned depth;
	bool comma[JSON_DEPTH_MAX + 1];
};

void json_writer_init(struct json_writer *w, struct buf *out);
must_check int json_writer_end(struct json_writer *w);
/* name is NULL inside arrays and at the top. */
void json_open_object(struct json_writer *w, const char *name);
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w, const char *name);
void json_close_array(struct json_writer *w);
void json_put_str(struct json_writer *w, const char *name, const char *value); /* NULL gives null */
void json_put_strn(struct json_writer *w, const char *name, const char *value,
                   size_t len); /* invalid UTF-8 becomes U+FFFD */
void json_put_base64(struct json_writer *w, const char *name, const void *data, size_t len);
void json_put_u64(struct json_writer *w, const char *name, uint64_t value);
void json_put_i64(struct json_writer *w, const char *name, int64_t value);
void json_put_double(struct json_writer *w, const char *name,
                     double value); /* up to three decimals; not finite gives null */
void json_put_bool(struct json_writer *w, const char *name, bool value);
void json_put_null(struct json_writer *w, const char *name);
void json_put_value(struct json_writer *w, const char *name,
                    const json_t *value); /* a parsed value again */
/* {code, message, hint?, field?, quota?, request_id}: an error as clients see it. */
void json_put_err(struct json_writer *w, const char *name, const struct err *err,
                  const char *request_id);
void json_put_raw(struct json_writer *w, const char *name, const char *json,
                  size_t len); /* trusted JSON text */
