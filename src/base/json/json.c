// SPDX-License-Identifier: Apache-2.0
#include "base/json/json.h"

#include "base/parse.h"
#include "base/text/nearest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STRING_BYTES_MAX (64 * 1024)
#define ARRAY_ITEMS_MAX  1024

static int read_string(const struct json_field *f, const char *path, const json_t *value,
                       struct err *err)
{
	uint64_t max = f->max ? f->max : STRING_BYTES_MAX;
	size_t len = json_string_length(value);

	if (!json_is_string(value))
		return err_field(err, path, "must be a string");
	if (len < f->min)
		return err_field(err, path, f->min == 1 ? "must not be empty" : "is too short");
	if (len > max)
		return err_field(err, path, "has %zu bytes, %" PRIu64 " are allowed", len, max);
	if (strlen(json_string_value(value)) != len)
		return err_field(err, path, "must not contain a NUL");
	*(const char **)f->ret = json_string_value(value);
	return 0;
}

static int read_u64(const struct json_field *f, const char *path, const json_t *value,
                    struct err *err)
{
	uint64_t max = f->max ? f->max : INT64_MAX;

	if (!json_is_integer(value))
		return err_field(err, path, "must be a whole number");
	if (json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) < f->min ||
	    (uint64_t)json_integer_value(value) > max)
		return err_field(err, path, "must be from %" PRIu64 " to %" PRIu64, f->min, max);
	*(uint64_t *)f->ret = (uint64_t)json_integer_value(value);
	return 0;
}

static int read_double(const struct json_field *f, const char *path, const json_t *value,
                       struct err *err)
{
	double number = json_number_value(value);

	if (!json_is_number(value))
		return err_field(err, path, "must be a number");
	if (!isfinite(number) || number < (double)f->min || (f->max && number > (double)f->max))
		return err_field(err, path, "must be from %" PRIu64 " to %" PRIu64, f->min, f->max);
	*(double *)f->ret = number;
	return 0;
}

static int read_array(const struct json_field *f, const char *path, json_t *value, struct err *err)
{
	uint64_t max = f->max ? f->max : ARRAY_ITEMS_MAX;

	if (!json_is_array(value))
		return err_field(err, path, "must be an array");
	if (json_array_size(value) < f->min || json_array_size(value) > max)
		return err_field(err, path, "must have from %" PRIu64 " to %" PRIu64 " items",
		                 f->min, max);
	*(json_t **)f->ret = value;
	return 0;
}

static int read_field(const struct json_field *f, const char *path, json_t *value, struct err *err)
{
	switch (f->kind) {
	case JSON_FIELD_STRING:
		return read_string(f, path, value, err);
	case JSON_FIELD_U64:
		return read_u64(f, path, value, err);
	case JSON_FIELD_DOUBLE:
		return read_double(f, path, value, err);
	case JSON_FIELD_BOOL:
		if (!json_is_boolean(value))
			return err_field(err, path, "must be true or false");
		*(bool *)f->ret = json_is_true(value);
		return 0;
	case JSON_FIELD_OBJECT:
		if (!json_is_object(value))
			return err_field(err, path, "must be an object");
		*(json_t **)f->ret = value;
		return 0;
	case JSON_FIELD_ARRAY:
		return read_array(f, path, value, err);
	case JSON_FIELD_ANY:
		*(json_t **)f->ret = value;
		return 0;
	}
	return -EINVAL;
}

static bool is_known(const struct json_field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].name, name) == 0)
			return true;
	return false;
}

static int refuse_unknown(const char *prefix, const char *name, const struct json_field *fields,
                          size_t n, struct err *err)
{
	struct nearest near;
	char path[64];

	nearest_init(&near, name, strlen(name));
	for (size_t i = 0; i < n; i++)
		nearest_try(&near, fields[i].name);
	(void)snprintf(path, sizeof(path), "%s%s", prefix, name);
	(void)err_field(err, path, "is not a known field");
	return nearest_hint(&near, err);
}

int json_read(const json_t *object, const char *prefix, const struct json_field *fields, size_t n,
              struct err *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return err_set(err, ERR_BAD_REQUEST, 0, "%s must be a JSON object",
		               *prefix ? prefix : "the body");
	json_object_foreach ((json_t *)unconst(object), key, value) {
		if (!is_known(fields, n, key))
			return refuse_unknown(prefix, key, fields, n, err);
	}
	for (size_t i = 0; i < n; i++) {
		const struct json_field *f = &fields[i];
		char path[64];
		bool given;
		int r;

		(void)snprintf(path, sizeof(path), "%s%s", prefix, f->name);
		value = json_object_get(object, f->name);
		given = value && !json_is_null(value);
		if (f->ret_given)
			*f->ret_given = given;
		if (!given && f->required)
			return err_field(err, path, "is required");
		if (!given)
			continue;
		r = read_field(f, path, value, err);
		if (r < 0)
			return r;
	}
	return 0;
}
