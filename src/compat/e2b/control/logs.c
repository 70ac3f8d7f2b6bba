// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's log: what the event log has about it, oldest first, also after its end. A line is a
 * JSON text with a level and a message, as E2B's command line reads it. The event log is read in
 * pieces, so that a long one holds up nobody.
 */
#include "compat/e2b/frame/objects.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "base/units.h"
#include "compat/e2b/frame/find.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_MAX 1000

struct scan {
	struct http_req *req;
	struct event_log *events;
	struct loop_job *job;
	struct event_filter filter;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE]; /* what the filter points to */
	uint64_t after, from_us, left;
	json_t *lines, *entries;
};

static void scan_free(void *arg)
{
	struct scan *sc = arg;

	loop_job_free(sc->job);
	json_decref(sc->lines);
	json_decref(sc->entries);
	free(sc);
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
	struct scan *sc = arg;
	auto_json json_t *entry = json_loadb(line->json, line->len, 0, NULL);
	const uint64_t at_us = (uint64_t)json_integer_value(json_object_get(entry, "at_us"));
	auto_json json_t *fields = NULL, *whole = NULL;
	auto_free char *text = NULL;
	char when[E2B_TIME_SIZE];

	if (!entry || at_us < sc->from_us)
		return 0;
	e2b_time(at_us, when);
	fields = fields_of(entry);
	whole = json_pack("{s:s, s:s, s:s}", "level", level_of(line->type), "logger", "cloche",
	                  "message", line->type);
	(void)json_object_update_missing(whole, fields);
	text = json_dumps(whole, JSON_COMPACT);
	(void)json_array_append_new(sc->lines,
	                            json_pack("{s:s, s:s}", "timestamp", when, "line", text));
	(void)json_array_append_new(sc->entries, json_pack("{s:s, s:s, s:s, s:O}", "timestamp",
	                                                   when, "message", line->type, "level",
	                                                   level_of(line->type), "fields", fields));
	return --sc->left == 0;
}

static void finish(struct scan *sc)
{
	struct http_req *req = sc->req;
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	json_put_value(w, "logs", sc->lines);
	json_put_value(w, "logEntries", sc->entries);
	http_on_done(req, NULL, NULL);
	scan_free(sc);
	reply_send_late(&reply, req, 200);
}

static bool scan_some(struct loop *loop, void *arg)
{
	struct scan *sc = arg;
	struct http_req *req = sc->req;
	struct err err;
	int r = event_log_read(sc->events, &sc->filter, &sc->after, on_line, sc, &err);

	(void)loop;
	if (r < 0) {
		http_on_done(req, NULL, NULL);
		scan_free(sc);
		http_reply_err(req, &err);
	} else if (r == 0 || sc->left == 0) {
		finish(sc);
	} else {
		return false;
	}
	return true;
}

int e2b_get_logs(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	uint64_t start_ms = 0, limit = LIMIT_MAX;
	const struct sandbox *s = NULL;
	struct scan *sc;
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
	sc = xnew0(struct scan);
	*sc = (struct scan){.req = req,
	                    .events = api->events,
	                    .from_us = start_ms * 1000,
	                    .left = limit,
	                    .lines = json_array(),
	                    .entries = json_array()};
	(void)snprintf(sc->sandbox_id, sizeof(sc->sandbox_id), "%s", sandbox_id(s));
	(void)snprintf(sc->project_id, sizeof(sc->project_id), "%s", caller_project(req));
	sc->filter.sandbox_id = sc->sandbox_id;
	sc->filter.project_id = sc->project_id;
	sc->job = loop_job_new(http_loop(req), scan_some, sc);
	http_on_done(req, scan_free, sc);
	loop_job_start(sc->job);
	return 0;
}
