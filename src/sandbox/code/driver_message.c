// SPDX-License-Identifier: Apache-2.0
#include "sandbox/code/driver_message.h"

#include "base/text/missing.h"

#include <assert.h>
#include <string.h>

#define NAME_MAX_BYTES 200
#define CALLS_DIGITS   10
#define REFUSAL_MAX    200    /* bytes that are told of it */
#define VALUES_MAX     100000 /* of a message: about 30 ms of the loop's time */
#define LENGTH_DIGITS  8      /* of DRIVER_MESSAGE_PAYLOAD_MAX */

static const char *const verbs[] = {
	[DRIVER_MESSAGE_READY] = "ready",     [DRIVER_MESSAGE_RESULT] = "result",
	[DRIVER_MESSAGE_DISPLAY] = "display", [DRIVER_MESSAGE_ERROR] = "error",
	[DRIVER_MESSAGE_DONE] = "done",
};
static_assert(ARRAY_SIZE(verbs) == DRIVER_MESSAGE_VERB_COUNT, "a verb has no name");

static bool read_verb(const char **at, const char *end, enum driver_message_verb *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		size_t len = strlen(verbs[i]);

		if ((size_t)(end - *at) <= len || memcmp(*at, verbs[i], len) != 0 ||
		    (*at)[len] != ' ')
			continue;
		*at += len + 1;
		*ret = (enum driver_message_verb)i;
		return true;
	}
	return false;
}

/* A decimal number without sign or leading zeros, up to the byte `after`. */
static bool read_number(const char **at, const char *end, size_t digits, char after, uint64_t max,
                        uint64_t *ret)
{
	const char *p = *at;
	uint64_t value = 0;

	while (p < end && (size_t)(p - *at) < digits && *p >= '0' && *p <= '9')
		value = value * 10 + (uint64_t)(*p++ - '0');
	if (p == *at || p == end || *p != after || (**at == '0' && p - *at > 1) || value > max)
		return false;
	*at = p + 1;
	*ret = value;
	return true;
}

int driver_message_get(const struct buf *in, struct driver_message *ret)
{
	size_t seen = MIN(in->len, (size_t)DRIVER_MESSAGE_HEAD_MAX);
	const char *at = in->data, *end;
	uint64_t call, len;
	struct driver_message m;

	if (seen == 0)
		return 0;
	end = memchr(in->data, '\n', seen);
	if (!end)
		return seen < DRIVER_MESSAGE_HEAD_MAX ? 0 : -EPROTO;
	end++;
	if (!read_verb(&at, end, &m.verb) ||
	    !read_number(&at, end, CALLS_DIGITS, ' ', UINT32_MAX, &call) ||
	    !read_number(&at, end, LENGTH_DIGITS, '\n', DRIVER_MESSAGE_PAYLOAD_MAX, &len) ||
	    at != end)
		return -EPROTO;
	m.call = (uint32_t)call;
	m.payload = at;
	m.len = (size_t)len;
	m.size = (size_t)(at - in->data) + m.len;
	if (in->len < m.size)
		return 0;
	*ret = m;
	return 1;
}

int driver_message_put_head(struct buf *out, const char *verb, uint32_t call, size_t len)
{
	return buf_printf(out, "%s %u %zu\n", verb, call, len);
}

static json_t *parse_object(const struct driver_message *m)
{
	json_t *value;

	if (json_parse_up_to(m->payload, m->len, VALUES_MAX, &value, NULL) < 0)
		return NULL;
	if (json_is_object(value))
		return value;
	json_decref(value);
	return NULL;
}

static void set(json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value) < 0)
		abort(); /* only on no memory */
}

json_t *driver_message_bundle(const struct driver_message *m)
{
	auto_json json_t *given = parse_object(m);
	json_t *data = json_object_get(given, "data");
	json_t *metadata = json_object_get(given, "metadata");
	json_t *bundle = json_object();

	if (json_is_object(data) && json_object_size(data) > 0) {
		set(bundle, "data", json_incref(data));
		set(bundle, "metadata",
		    json_is_object(metadata) ? json_incref(metadata) : json_object());
		if (json_is_true(json_object_get(given, "truncated")))
			set(bundle, "truncated", json_true());
		return bundle;
	}
	data = json_object();
	set(data, "text/plain", json_string("(a value that cannot be shown)"));
	set(bundle, "data", data);
	set(bundle, "metadata", json_object());
	set(bundle, "truncated", json_true());
	return bundle;
}

json_t *driver_message_make_error(const char *name, const char *message)
{
	json_t *error = json_object();
	json_t *text = json_string(message);

	set(error, "name", json_string(name));
	set(error, "message", text ? text : json_string(""));
	set(error, "traceback", json_array());
	return error;
}

static bool is_lines(const json_t *array)
{
	if (!json_is_array(array))
		return false;
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!json_is_string(json_array_get(array, i)))
			return false;
	return true;
}

/* Adds a hint to the error for a missing module; the error's own text stays as it is. */
static void add_hint(json_t *error)
{
	const char *message = json_string_value(json_object_get(error, "message"));
	auto_free char *line =
		xasprintf("%s: %.*s", json_string_value(json_object_get(error, "name")),
	                  (int)strcspn(message, "\n"), message);
	char hint[MISSING_HINT_SIZE];

	if (missing_hint(line, hint))
		set(error, "hint", json_string(hint));
}

json_t *driver_message_error(const struct driver_message *m)
{
	auto_json json_t *given = parse_object(m);
	json_t *name = json_object_get(given, "name");
	json_t *message = json_object_get(given, "message");
	json_t *traceback = json_object_get(given, "traceback");
	json_t *error;

	if (!json_is_string(name) || json_string_length(name) > NAME_MAX_BYTES)
		return driver_message_make_error("Error", "(an error that cannot be shown)");
	error = json_object();
	set(error, "name", json_incref(name));
	set(error, "message", json_is_string(message) ? json_incref(message) : json_string(""));
	set(error, "traceback", is_lines(traceback) ? json_incref(traceback) : json_array());
	add_hint(error);
	return error;
}

int driver_message_done(const struct driver_message *m, struct driver_message_done *ret)
{
	static const char *const statuses[] = {
		[DONE_OK] = "ok", [DONE_ERROR] = "error", [DONE_EXIT] = "exit"};
	auto_json json_t *given = parse_object(m);
	const char *status = json_string_value(json_object_get(given, "status"));
	json_int_t count = json_integer_value(json_object_get(given, "count"));
	json_int_t exit_code = json_integer_value(json_object_get(given, "exit_code"));
	const json_t *cpu_us = json_object_get(given, "cpu_us");

	if (!status || count < 0)
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (strcmp(status, statuses[i]) != 0)
			continue;
		*ret = (struct driver_message_done){.status = (enum done_status)i,
		                                    .count = (uint64_t)count,
		                                    .exit_code = (uint32_t)exit_code & 0xff,
		                                    .has_cpu = json_integer_value(cpu_us) >= 0 &&
		                                               json_is_integer(cpu_us)};
		if (ret->has_cpu)
			ret->cpu_us = (uint64_t)json_integer_value(cpu_us);
		return 0;
	}
	return -EPROTO;
}

bool driver_message_takes_env(const struct driver_message *m)
{
	auto_json json_t *given = parse_object(m);

	return json_is_true(json_object_get(given, "env"));
}

bool driver_message_can_save(const struct driver_message *m)
{
	auto_json json_t *given = parse_object(m);

	return json_is_true(json_object_get(given, "save"));
}

char *driver_message_refusal(const struct driver_message *m)
{
	auto_json json_t *given = parse_object(m);
	const char *why = json_string_value(json_object_get(given, "refused"));

	return why ? xasprintf("%.*s", REFUSAL_MAX, why) : NULL;
}
