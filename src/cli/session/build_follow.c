// SPDX-License-Identifier: Apache-2.0
#include "cli/session/build_follow.h"

#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COME_BACK_US   UINT64_C(60000000) /* a daemon that restarts is back within seconds */
#define RETRY_MS       200
#define LINE_MAX_BYTES (1024 * 1024)
#define BAR            24

static void wipe(struct build_follow *f)
{
	if (f->has_bar)
		(void)fputs("\r\x1b[K", stderr);
	f->has_bar = false;
}

static void show_bar(struct build_follow *f, const json_t *build)
{
	const json_t *p = json_object_get(build, "progress");
	double fraction = json_number_value(json_object_get(p, "fraction"));
	uint64_t left_ms = command_number(p, "left_ms"), total = command_number(p, "bytes_total");
	char bar[BAR + 1], bytes[40] = "", left[16], of[16], done[16];

	if (!isatty(STDERR_FILENO) || !json_is_object(p))
		return;
	for (size_t i = 0; i < BAR; i++)
		bar[i] = (double)i < fraction * BAR ? '#' : '.';
	bar[BAR] = '\0';
	if (total > 0) {
		text_bytes(command_number(p, "bytes_done"), done);
		text_bytes(total, of);
		(void)snprintf(bytes, sizeof(bytes), ", %s of %s", done, of);
	} else if (command_number(p, "bytes_done") > 0) {
		text_bytes(command_number(p, "bytes_done"), done);
		(void)snprintf(bytes, sizeof(bytes), ", sealed %s", done);
	}
	text_age(left_ms * 1000, left);
	(void)fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %% %s%s%s%s%s", command_text(build, "name"),
	              bar, fraction * 100, command_text(p, "step"), bytes,
	              left_ms > 0 ? ", about " : "", left_ms > 0 ? left : "",
	              left_ms > 0 ? " left" : "");
	(void)fflush(stderr);
	f->has_bar = true;
}

static void show_log(struct build_follow *f, const char *text)
{
	if (f->is_quiet || (!f->is_verbose && strncmp(text, "== ", 3) != 0))
		return;
	wipe(f);
	(void)fputs(text, f->is_verbose ? stdout : stderr);
}

static int on_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct build_follow *f = arg;
	auto_json json_t *event = NULL;
	const char *type;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return r;
	type = command_text(event, "type");
	if (strcmp(type, "log") == 0) {
		f->last_seq = command_number(event, "seq");
		show_log(f, command_text(event, "text"));
	} else if (strcmp(type, "progress") == 0) {
		show_bar(f, json_object_get(event, "build"));
	} else if (strcmp(type, "ended") == 0) {
		f->build = json_incref(json_object_get(event, "build"));
		return 1;
	}
	return 0;
}

int build_follow_read(struct build_follow *f, const char *id, bool is_following, struct err *err)
{
	char after[24];
	auto_free char *path = remote_path("builds", id, "events");
	int r;

	(void)snprintf(after, sizeof(after), "%" PRIu64, f->last_seq);
	path = remote_query(path, "after", after);
	if (is_following)
		path = remote_query(path, "follow", "1");
	r = remote_begin(f->remote, "GET", path,
	                 &(struct remote_request){.accept = "application/x-ndjson"}, err);
	return r < 0 ? r : lines_read(f->remote, LINE_MAX_BYTES, on_line, f, err);
}

int build_follow_to_end(struct build_follow *f, const char *id, struct err *err)
{
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
	uint64_t since_us = clock_steady_us();
	int r;

	for (;;) {
		uint64_t seq = f->last_seq;

		r = build_follow_read(f, id, /* is_following= */ true, err);
		if (r > 0 || (r < 0 && err->code == ERR_NOT_FOUND))
			break;
		if (f->last_seq > seq)
			since_us = clock_steady_us();
		if (clock_steady_us() - since_us > COME_BACK_US)
			return r < 0 ? r : err_set(err, ERR_UNAVAILABLE, 0, "the daemon is gone");
		(void)nanosleep(&pause, NULL);
	}
	wipe(f);
	return MIN(r, 0);
}

int build_follow_error(const json_t *build, struct err *err)
{
	const json_t *error = json_object_get(build, "error");

	if (strcmp(command_text(build, "state"), "ready") == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "%s was not built: %s", command_text(build, "name"),
	              json_is_object(error) ? command_text(error, "message") : "it was cancelled");
	return json_is_object(error) ? err_hint(err, "%s", command_text(error, "hint")) : -EINVAL;
}

bool build_is_going(const json_t *build)
{
	const char *state = command_text(build, "state");

	return strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;
}

char *build_progress(const json_t *build)
{
	const json_t *p = json_object_get(build, "progress");
	const uint64_t left_ms = command_number(p, "left_ms");
	char left[16] = "";

	if (!json_is_object(p))
		return xstrdup(command_text(build, "state"));
	if (left_ms > 0)
		text_age(left_ms * 1000, left);
	return xasprintf(
		"%.0f %%, %s%s%s%s", json_number_value(json_object_get(p, "fraction")) * 100,
		command_text(p, "step"), left[0] ? ", about " : "", left, left[0] ? " left" : "");
}
