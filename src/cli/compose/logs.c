// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: a thread for each service reads its stream over a connection of its own, and
 * hands on whole lines. When a connection breaks, the thread asks again from the last number seen.
 */
#include "cli/compose/logs.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "cli/remote/lines.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EVENT_MAX    ((size_t)4 * 1024 * 1024)
#define LINE_CUT     ((size_t)16 * 1024)
#define COME_BACK_US UINT64_C(30000000)

struct stream {
	const struct project *p;
	struct remote *remote;
	const char *service, *sandbox, *exec;
	int width;
	bool is_following, has_ended;
	uint64_t last_seq;
	struct buf line;
	pthread_t thread;
	bool has_thread;
};

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void put_line(struct stream *s)
{
	struct buf shown = BUF_INIT(8 * LINE_CUT);

	text_escape(&shown, buf_str(&s->line), s->line.len);
	(void)pthread_mutex_lock(&printing);
	printf("%-*s | %s\n", s->width, s->service, buf_str(&shown));
	(void)fflush(stdout);
	(void)pthread_mutex_unlock(&printing);
	buf_done(&shown);
	buf_truncate(&s->line, 0);
}

static void put_text(struct stream *s, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n' || s->line.len == LINE_CUT)
			put_line(s);
		if (*text != '\n' && buf_append(&s->line, text, 1) < 0)
			put_line(s);
	}
}

static int take_event(void *arg, const char *line, size_t len, struct err *err)
{
	struct stream *s = arg;
	auto_json json_t *event = NULL;
	const char *type;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return err_prefix(err, "an event");
	type = command_text(event, "type");
	if (command_number(event, "seq") > 0)
		s->last_seq = command_number(event, "seq");
	if (s->p->c->common.json && (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0)) {
		(void)json_object_set_new(event, "service", json_string(s->service));
		(void)pthread_mutex_lock(&printing);
		command_print_json(event);
		(void)pthread_mutex_unlock(&printing);
	} else if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
		put_text(s, json_object_get(event, "text") ? command_text(event, "text")
		                                           : "(bytes that are no text)\n");
	} else if (strcmp(type, "gap") == 0) {
		put_text(s, "(what was printed before is no longer kept)\n");
	}
	s->has_ended = s->has_ended || strcmp(type, "exited") == 0;
	return s->has_ended ? 1 : 0;
}

static int read_once(struct stream *s, struct err *err)
{
	const struct remote_request request = {.accept = "application/x-ndjson"};
	auto_free char *path = remote_path("sandboxes", s->sandbox, "execs", s->exec, "output");
	char after[24];
	int r;

	(void)snprintf(after, sizeof(after), "%" PRIu64, s->last_seq);
	path = remote_query(path, "after", after);
	if (s->is_following)
		path = remote_query(path, "follow", "1");
	r = remote_begin(s->remote, "GET", path, &request, err);
	return r < 0 ? r : lines_read(s->remote, EVENT_MAX, take_event, s, err);
}

static void *read_stream(void *arg)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	struct stream *s = arg;
	uint64_t since_us = clock_steady_us();
	struct err err;

	for (;;) {
		uint64_t seq = s->last_seq;
		int r = read_once(s, &err);

		if (s->has_ended || !s->is_following ||
		    (r < 0 && (err.code == ERR_NOT_FOUND || err.code == ERR_GONE)))
			break;
		if (s->last_seq > seq)
			since_us = clock_steady_us();
		if (clock_steady_us() - since_us > COME_BACK_US)
			break;
		(void)nanosleep(&pause, NULL);
	}
	if (s->line.len > 0)
		put_line(s);
	return NULL;
}

static int start_stream(struct stream *s, struct err *err)
{
	int r = remote_open_again(s->p->c->remote, &s->remote, err);

	if (r < 0)
		return r;
	if (!s->is_following) {
		(void)read_stream(s);
		return 0;
	}
	r = -pthread_create(&s->thread, NULL, read_stream, s);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot start a thread");
	s->has_thread = true;
	return 0;
}

static int print_all(const struct project *p, const json_t *members, const char *service,
                     bool is_following, struct err *err)
{
	const size_t n = json_array_size(members);
	struct stream *streams = xnew0n(struct stream, n + 1);
	int width = 0, r = 0;
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		width = MAX(width, (int)strlen(project_tag(json_array_get(members, i),
		                                           "compose_service")));
	for (size_t i = n; r == 0 && i > 0; i--) { /* the oldest first */
		const json_t *one = json_array_get(members, i - 1);
		const char *exec = project_tag(one, "compose_exec");
		struct stream *s = &streams[used];

		if (!*exec || strcmp(exec, "none") == 0 ||
		    (service && strcmp(service, project_tag(one, "compose_service")) != 0))
			continue;
		*s = (struct stream){.p = p,
		                     .service = project_tag(one, "compose_service"),
		                     .sandbox = command_text(one, "id"),
		                     .exec = exec,
		                     .width = width,
		                     .is_following = is_following,
		                     .line = BUF_INIT(LINE_CUT + 16)};
		used++;
		r = start_stream(s, err);
	}
	for (size_t i = 0; i < used; i++) {
		if (streams[i].has_thread)
			(void)pthread_join(streams[i].thread, NULL);
		remote_close(streams[i].remote);
		buf_done(&streams[i].line);
	}
	free(streams);
	return r;
}

int logs_print(const struct project *p, const char *service, bool is_following, struct err *err)
{
	auto_json json_t *members = NULL;
	int r = project_members(p, p->c->remote, &members, err);

	if (r < 0)
		return r;
	if (service && !project_member_of(members, service))
		return err_set(err, ERR_NOT_FOUND, 0,
		               "the project '%s' has no service '%s' that runs", p->name, service);
	return print_all(p, members, service, is_following, err);
}
