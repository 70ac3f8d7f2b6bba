// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's log: what the event log has about it, also after its end. The first generation has
 * lines, each a JSON text with a level and a message, as E2B's command line reads it, and the
 * oldest first. The second has entries, which can be chosen, and the newest first if that is asked
 * for.
 */
#include "compat/e2b/frame/objects.h"

#include "api/frame/event_scan.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "base/units.h"
#include "compat/e2b/frame/find.h"

#include <string.h>

#define LIMIT_MAX   1000
#define SEARCH_MAX  256
#define TIME_MAX_MS (UINT64_MAX / 1000 - 1)

struct log {
	uint64_t from_us, to_us, limit;
	bool is_backward; /* the last ones, the newest first */
	unsigned level;   /* the least, of levels[] */
	char *search;     /* in the message, or NULL */
	json_t *lines;    /* NULL: the second generation has none */
	json_t *entries;
};

static const char *const levels[] = {"debug", "info", "warn", "error"};

static void log_free(void *arg)
{
	struct log *log = arg;

	json_decref(log->lines);
	json_decref(log->entries);
	free(log->search);
	free(log);
}

/* What failed or was refused is a warning. */
static unsigned level_of(const char *type)
{
	return strstr(type, "failed") || strstr(type, "denied") || strstr(type, "lost") ? 2 : 1;
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

/* An entry's line of the first generation, and its form in both. */
static void put_entry(struct log *log, const char *type, const char *when, json_t *fields)
{
	const char *level = levels[level_of(type)];
	auto_json json_t *whole =
		json_pack("{s:s, s:s, s:s}", "level", level, "logger", "cloche", "message", type);
	auto_free char *text = NULL;

	(void)json_array_append_new(log->entries,
	                            json_pack("{s:s, s:s, s:s, s:O}", "timestamp", when, "message",
	                                      type, "level", level, "fields", fields));
	if (!log->lines)
		return;
	(void)json_object_update_missing(whole, fields);
	text = json_dumps(whole, JSON_COMPACT);
	(void)json_array_append_new(log->lines,
	                            json_pack("{s:s, s:s}", "timestamp", when, "line", text));
}

static bool is_asked_for(const struct log *log, const char *type, uint64_t at_us)
{
	return at_us >= log->from_us && at_us <= log->to_us && level_of(type) >= log->level &&
	       (!log->search || strstr(type, log->search));
}

static int on_line(const struct event_line *line, void *arg)
{
	struct log *log = arg;
	auto_json json_t *entry = json_loadb(line->json, line->len, 0, NULL);
	const uint64_t at_us = (uint64_t)json_integer_value(json_object_get(entry, "at_us"));
	auto_json json_t *fields = NULL;
	char when[E2B_TIME_SIZE];

	if (!entry || !is_asked_for(log, line->type, at_us))
		return 0;
	if (log->is_backward && json_array_size(log->entries) == log->limit)
		(void)json_array_remove(log->entries, 0);
	e2b_time(at_us, when);
	fields = fields_of(entry);
	put_entry(log, line->type, when, fields);
	return !log->is_backward && json_array_size(log->entries) == log->limit;
}

static void turn_around(json_t *list)
{
	for (size_t n = json_array_size(list); n > 0; n--) {
		(void)json_array_append(list, json_array_get(list, n - 1));
		(void)json_array_remove(list, n - 1);
	}
}

static void log_send(struct http_req *req, uint64_t after, void *arg)
{
	struct log *log = arg;
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	(void)after;
	if (log->is_backward)
		turn_around(log->entries);
	json_put_value(w, "logs", log->lines ? log->lines : log->entries);
	if (log->lines)
		json_put_value(w, "logEntries", log->entries);
	log_free(log);
	reply_send_late(&reply, req, 200);
}

static const struct event_scan_ops ops = {.line = on_line, .end = log_send, .free = log_free};

/* The log of the path's sandbox, as it was asked for. */
static int send_log(struct http_req *req, const struct log *asked, const char *search,
                    bool has_lines, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	const struct sandbox *s = NULL;
	struct log *log;
	char id[ID_SIZE];

	e2b_native_id(name, id);
	http_set_subject(req, id);
	if (id[0])
		s = sandbox_find(api->fleet, caller_project(req), id);
	if (!s)
		return err_set(err, ERR_NOT_FOUND, 0, "sandbox \"%.64s\" not found", name);
	log = xnew0(struct log);
	*log = *asked;
	log->search = search ? xstrdup(search) : NULL;
	log->lines = has_lines ? json_array() : NULL;
	log->entries = json_array();
	event_scan_start(req, api->events, s, /* types= */ 0, /* after= */ 0, &ops, log);
	return 0;
}

int e2b_get_logs_v1(struct http_req *req, struct err *err)
{
	struct log asked = {.to_us = UINT64_MAX, .limit = LIMIT_MAX};
	uint64_t start_ms = 0;
	int r = http_query_u64(req, "start", 0, TIME_MAX_MS, &start_ms, err);

	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIMIT_MAX, &asked.limit, err);
	asked.from_us = start_ms * 1000;
	return r < 0 ? r : send_log(req, &asked, /* search= */ NULL, /* has_lines= */ true, err);
}

/* One of some words; absent leaves *ret. */
static int query_word(const struct http_req *req, const char *name, const char *const words[],
                      size_t n, unsigned *ret, struct err *err)
{
	const char *said = http_query(req, name);

	for (size_t i = 0; said && i < n; i++)
		if (strcmp(said, words[i]) == 0) {
			*ret = (unsigned)i;
			return 0;
		}
	return said ? err_field(err, name, "'%.64s' is none of E2B's; try '%s'", said, words[1])
	            : 0;
}

int e2b_get_logs(struct http_req *req, struct err *err)
{
	static const char *const directions[] = {"forward", "backward"};
	const char *search = http_query(req, "search");
	struct log asked = {.to_us = UINT64_MAX, .limit = LIMIT_MAX};
	uint64_t cursor_ms = TIME_MAX_MS;
	unsigned direction = 0;
	int r = query_word(req, "direction", directions, ARRAY_SIZE(directions), &direction, err);

	if (r == 0)
		r = query_word(req, "level", levels, ARRAY_SIZE(levels), &asked.level, err);
	asked.is_backward = direction == 1;
	if (!asked.is_backward)
		cursor_ms = 0;
	if (r == 0)
		r = http_query_u64(req, "cursor", 0, TIME_MAX_MS, &cursor_ms, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIMIT_MAX, &asked.limit, err);
	if (r == 0 && search && strlen(search) > SEARCH_MAX)
		r = err_field(err, "search", "may have %d bytes at most", SEARCH_MAX);
	if (r < 0)
		return r;
	if (asked.is_backward)
		asked.to_us = cursor_ms * 1000 + 999;
	else
		asked.from_us = cursor_ms * 1000;
	return send_log(req, &asked, search, /* has_lines= */ false, err);
}
