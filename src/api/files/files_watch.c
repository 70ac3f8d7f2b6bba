// SPDX-License-Identifier: Apache-2.0
/*
 * Changes under a path as a stream of events. The head is sent with the first one (`ready`), so
 * that a path that cannot be watched is a plain error. A client that is slower than the changes
 * holds back the agent, whose queue then overflows and says so.
 */
#include "api/files/file_job.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/units.h"

#include "http/stream.h"

#define KEEPALIVE_US (15 * SECOND_US)

static const char *const event_names[] = {
	[WATCH_CREATED] = "created", [WATCH_MODIFIED] = "modified", [WATCH_REMOVED] = "removed",
	[WATCH_MOVED] = "moved",     [WATCH_ATTRIB] = "attrib",     [WATCH_OVERFLOW] = "overflow",
	[WATCH_READY] = "ready",
};

static void on_keepalive(struct loop *loop, void *arg)
{
	struct file_job *job = arg;

	(void)loop;
	loop_timer_set_in(job->keepalive, KEEPALIVE_US);
	if (job->is_begun && job->call && http_stream_pending(job->req) == 0 &&
	    event_stream_keepalive(job->req, (enum event_format)job->format) < 0)
		http_stream_abort(job->req);
}

static void begin(struct file_job *job)
{
	if (job->is_begun)
		return;
	job->is_begun = true;
	event_stream_start(job->req, (enum event_format)job->format);
}

static void send_event(struct file_job *job, const char *type, const struct record *r,
                       const struct err *err)
{
	struct json_writer w;

	buf_truncate(&job->out, 0);
	json_writer_init(&w, &job->out);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	if (r)
		json_put_str(&w, "path", r->path);
	if (r && r->event == WATCH_MOVED)
		json_put_str(&w, "to", r->path2);
	if (err)
		json_put_err(&w, "error", err, http_request_id(job->req));
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || event_stream_send(job->req, (enum event_format)job->format,
	                                                 type, 0, job->out.data, job->out.len) < 0)
		http_stream_abort(job->req);
}

static void on_record(const struct record *r, void *arg)
{
	struct file_job *job = arg;

	if (r->kind != RECORD_EVENT || (size_t)r->event >= ARRAY_SIZE(event_names) ||
	    !event_names[r->event])
		return;
	begin(job);
	if (http_req_method(job->req) == HTTP_HEAD) {
		file_call_cancel(take_ptr(job->call));
		http_stream_end(job->req);
		return;
	}
	send_event(job, event_names[r->event], r, NULL);
	if (http_stream_pending(job->req) >= HTTP_HIGH_WATER)
		file_call_pause(job->call, true);
}

static void on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;

	job->call = NULL;
	if (err && !job->is_begun) {
		http_reply_err(job->req, err);
		return;
	}
	begin(job);
	if (err)
		send_event(job, "error", NULL, err);
	http_stream_end(job->req);
}

int watch_files(struct http_req *req, struct err *err)
{
	static const struct file_flag flags[] = {{"recursive", FILE_RECURSIVE}};
	static const struct file_call_ops ops = {.on_record = on_record, .on_end = on_end};
	enum event_format format = event_format_of(req);
	struct start op = {.kind = START_FILE, .op = FILE_WATCH};
	struct file_job *job;
	int r = file_query(req, &op, err);

	if (r == 0)
		r = check_accept(req, event_types, err);
	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	if (r == 0)
		r = file_job_start(req, &op, &ops, &job, err);
	if (r != 0)
		return r;
	job->format = format == EVENTS_NONE ? EVENTS_NDJSON : format;
	job->keepalive = loop_timer_new(http_loop(req), on_keepalive, job);
	loop_timer_set_in(job->keepalive, KEEPALIVE_US);
	return 0;
}
