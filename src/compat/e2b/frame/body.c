// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/frame/body.h"

#include "base/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 64

/* "watcherId" as "watcher_id". */
static void to_snake(const char *name, char ret[NAME_MAX_LEN])
{
	size_t n = 0;

	for (; *name && n + 2 < NAME_MAX_LEN; name++) {
		if (isupper((unsigned char)*name))
			ret[n++] = '_';
		ret[n++] = (char)tolower((unsigned char)*name);
	}
	ret[n] = '\0';
}

const json_t *body_get(const json_t *body, const char *name)
{
	const json_t *value = json_object_get(body, name);
	char snake[NAME_MAX_LEN];

	if (!value) {
		to_snake(name, snake);
		value = json_object_get(body, snake);
	}
	return json_is_null(value) ? NULL : value;
}

int body_text(const json_t *body, const char *name, const char **ret, struct err *err)
{
	const json_t *value = body_get(body, name);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return err_field(err, name, "must be a string");
	if (strlen(json_string_value(value)) != json_string_length(value))
		return err_field(err, name, "must not have a NUL");
	*ret = json_string_value(value);
	return 0;
}

int body_bool(const json_t *body, const char *name, bool *ret, struct err *err)
{
	const json_t *value = body_get(body, name);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return err_field(err, name, "must be true or false");
	*ret = json_is_true(value);
	return 0;
}

static int read_text_int(const char *text, int64_t *ret)
{
	bool is_negative = *text == '-';
	uint64_t value;

	if (parse_u64(text + is_negative, INT64_MAX, &value) < 0)
		return -EINVAL;
	*ret = is_negative ? -(int64_t)value : (int64_t)value;
	return 0;
}

int body_int(const json_t *body, const char *name, int64_t *ret, bool *ret_given, struct err *err)
{
	const json_t *value = body_get(body, name);

	if (ret_given)
		*ret_given = value != NULL;
	if (!value)
		return 0;
	if (json_is_integer(value))
		*ret = json_integer_value(value);
	else if (json_is_real(value) && json_real_value(value) > -1e15 &&
	         json_real_value(value) < 1e15)
		*ret = (int64_t)json_real_value(value);
	else if (!json_is_string(value) || read_text_int(json_string_value(value), ret) < 0)
		return err_field(err, name, "must be a number");
	return 0;
}

int body_object(const json_t *body, const char *name, const json_t **ret, struct err *err)
{
	const json_t *value = body_get(body, name);

	if (!value)
		return 0;
	if (!json_is_object(value))
		return err_field(err, name, "must be an object");
	*ret = value;
	return 0;
}

int body_array(const json_t *body, const char *name, const json_t **ret, struct err *err)
{
	const json_t *value = body_get(body, name);

	if (!value)
		return 0;
	if (!json_is_array(value))
		return err_field(err, name, "must be an array");
	*ret = value;
	return 0;
}

int body_strings(const json_t *body, const char *name, const json_t **ret, struct err *err)
{
	const json_t *found = NULL;
	const char *key;
	json_t *value;
	int r = body_object(body, name, &found, err);

	if (r < 0 || !found)
		return r;
	json_object_foreach ((json_t *)unconst(found), key, value) {
		if (!json_is_string(value))
			return err_field(err, name, "'%.40s' must be a string", key);
	}
	*ret = found;
	return 0;
}

int body_base64(const char *text, const char *field, char **ret, size_t *ret_len, struct err *err)
{
	size_t len = strlen(text);
	auto_free char *plain = xcalloc(1, len + 4);
	auto_free char *data = xcalloc(1, len + 4);
	ssize_t n;

	for (size_t i = 0; i < len; i++)
		plain[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	while (len % 4 != 0 && len % 4 != 1)
		plain[len++] = '=';
	n = base64_decode(plain, len, data);
	if (n < 0)
		return err_field(err, field, "must be base64");
	*ret = take_ptr(data);
	*ret_len = (size_t)n;
	return 0;
}
