// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's log: what the event log has about it, oldest first, also after its end. A line is a
 * JSON text with a level and a message, as E2B's command line reads it.
 */
#include "compat/e2b/frame/objects.h"

#include "api/frame/event_scan.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "base/units.h"
#include "compat/e2b/frame/find.h"

#include <string.h>

#define LIMIT_MAX 1000

struct log {
	uint64_t from_us, left;
	json_t *lines, *entries;
};

static void log_free(void *arg)
{
	struct log *log = arg;

	json_decref(log->lines);
	json_decref(log->entries);
	free(log);
}

/* What failed or was refused is a warning. */
static const char *level_of(const char *type)
{
	return strstr(type, "failed") || strstr(type, "denied") || strstr(type, "lost") ? "warn"
	                                                                                : "info";
}

/* The entry's data, with each value as text. */
static json_t *fields_of(const json_t *entry)
{
	json_t *fields = json_object(), *value;
	const char *exec = json_string_value(json_object_get(entry, "exec_id")), *key;

	if (exec)
		(void)json_object_set_new(fields, "exec_id", json_string(exec));
	json_object_foreach (json_object_get(entry, "data"), key, value) {
		auto_free char *text = json_is_string(value)
		                               ? NULL
		                               : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

		(void)json_object_set_new(fields, key,
		                          json_string(text ? text : json_string_value(value)));
	}
	return fields;
}

static int on_line(const struct event_line *line, void *arg)
{
	struct log *log = arg;
	auto_json json_t *entry = json_loadb(line->json, line->len, 0, NULL);
	const uint64_t at_us = (uint64_t)json_integer_value(json_object_get(entry, "at_us"));
	auto_json json_t *fields = NULL, *whole = NULL;
	auto_free char *text = NULL;
	char when[E2B_TIME_SIZE];

	if (!entry || at_us < log->from_us)
		return 0;
	e2b_time(at_us, when);
	fields = fields_of(entry);
	whole = json_pack("{s:s, s:s, s:s}", "level", level_of(line->type), "logger", "cloche",
	                  "message", line->type);
	(void)json_object_update_missing(whole, fields);
	text = json_dumps(whole, JSON_COMPACT);
	(void)json_array_append_new(log->lines,
	                            json_pack("{s:s, s:s}", "timestamp", when, "line", text));
	(void)json_array_append_new(log->entries,
	                            json_pack("{s:s, s:s, s:s, s:O}", "timestamp", when, "message",
	                                      line->type, "level", level_of(line->type), "fields",
	                                      fields));
	return --log->left == 0;
}

static void log_send(struct http_req *req, uint64_t after, void *arg)
{
	struct log *log = arg;
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	(void)after;
	json_put_value(w, "logs", log->lines);
	json_put_value(w, "logEntries", log->entries);
	log_free(log);
	reply_send_late(&reply, req, 200);
}

static const struct event_scan_ops ops = {.line = on_line, .end = log_send, .free = log_free};

int e2b_get_logs(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	uint64_t start_ms = 0, limit = LIMIT_MAX;
	const struct sandbox *s = NULL;
	struct log *log;
	char id[ID_SIZE];
	int r = http_query_u64(req, "start", 0, UINT64_MAX / 1000, &start_ms, err);

	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIMIT_MAX, &limit, err);
	if (r < 0)
		return r;
	e2b_native_id(name, id);
	http_set_subject(req, id);
	if (id[0])
		s = sandbox_find(api->fleet, caller_project(req), id);
	if (!s)
		return err_set(err, ERR_NOT_FOUND, 0, "sandbox \"%.64s\" not found", name);
	log = xnew0(struct log);
	*log = (struct log){.from_us = start_ms * 1000,
	                    .left = limit,
	                    .lines = json_array(),
	                    .entries = json_array()};
	event_scan_start(req, api->events, s, /* types= */ 0, /* after= */ 0, &ops, log);
	return 0;
}
