// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/events.h"

#include "base/clock.h"
#include "cli/remote/lines.h"

#include <string.h>
#include <time.h>

#define LINE_MAX_      (4 * 1024 * 1024) /* an event carries at most a chunk of output, escaped */
#define COME_BACK_US   30000000          /* a daemon that restarts is back within seconds */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS  1000

static const char ndjson[] = "application/x-ndjson";

void events_done(struct events *e)
{
	free(e->exec_id);
	e->exec_id = NULL;
	json_decref(e->exec);
	e->exec = NULL;
}

/* An event of type "error" ends a stream that cannot go on. */
static int stream_error(const json_t *event, struct err *err)
{
	const json_t *error = json_object_get(event, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *hint = json_string_value(json_object_get(error, "hint"));

	(void)err_set(err, ERR_INTERNAL, 0, "%s", message ? message : "the stream has failed");
	return hint ? err_hint(err, "%s", hint) : -EINVAL;
}

/* 1: the exec has ended. */
static int take_event(void *arg, const char *line, size_t len, struct err *err)
{
	struct events *e = arg;
	auto_json json_t *event = NULL;
	const char *type;
	json_t *exec;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return err_prefix(err, "an event");
	type = json_string_value(json_object_get(event, "type"));
	exec = json_object_get(event, "exec");
	if (!type)
		return err_set(err, ERR_INTERNAL, 0, "an event has no type");
	if (strcmp(type, "error") == 0)
		return stream_error(event, err);
	if (json_is_integer(json_object_get(event, "seq")))
		e->last_seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
	if (!e->exec_id && json_is_string(json_object_get(exec, "id"))) {
		e->exec_id = xstrdup(json_string_value(json_object_get(exec, "id")));
		if (e->on_started)
			e->on_started(e->exec_id, e->arg);
	}
	r = output_event(e->output, event, line, len, err);
	if (r < 0 || strcmp(type, "exited") != 0)
		return r;
	e->exec = json_incref(exec);
	return 1;
}

int events_read(struct events *e, struct err *err)
{
	/* An end of the stream, clean or not: either way the exec itself is not over. */
	return lines_read(e->remote, LINE_MAX_, take_event, e, err);
}

int events_start(struct events *e, const json_t *body, struct err *err)
{
	struct remote_request request = {.accept = ndjson, .body = body};
	auto_free char *path = remote_path("sandboxes", e->sandbox, "execs");

	return remote_begin(e->remote, "POST", path, &request, err);
}

int events_resume(struct events *e, bool follow, struct err *err)
{
	struct remote_request request = {.accept = ndjson};
	auto_free char *after = xasprintf("%llu", (unsigned long long)e->last_seq);
	char *path = remote_path("sandboxes", e->sandbox, "execs", e->exec_id, "output");
	int r;

	path = remote_query(path, "after", after);
	if (follow)
		path = remote_query(path, "follow", "1");
	r = remote_begin(e->remote, "GET", path, &request, err);
	free(path);
	return r;
}

/* A daemon that is starting anew refuses connections, or says so itself; any other answer is one.
 */
static bool may_pass(const struct err *err)
{
	return err->code == ERR_UNAVAILABLE || err->errnum != 0;
}

static int come_back(struct events *e, struct err *err)
{
	uint64_t deadline_us = clock_steady_us() + COME_BACK_US;
	long wait_ms = RETRY_FIRST_MS;

	for (;;) {
		int r = events_resume(e, /* follow= */ true, err);
		struct timespec pause = {wait_ms / 1000, wait_ms % 1000 * 1000000};

		if (r == 0 || !may_pass(err) || clock_steady_us() >= deadline_us)
			return r;
		(void)nanosleep(&pause, NULL);
		wait_ms = MIN(2 * wait_ms, RETRY_MOST_MS);
	}
}

int events_follow(struct events *e, struct err *err)
{
	for (;;) {
		int r = events_read(e, err);

		if (r != 0)
			return r < 0 ? r : 0;
		if (!e->exec_id)
			return err_set(err, ERR_UNAVAILABLE, 0,
			               "the daemon went away before the command had started");
		r = come_back(e, err);
		if (r < 0)
			return err_prefix(err, "lost the command's output");
	}
}
