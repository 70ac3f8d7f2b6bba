// SPDX-License-Identifier: Apache-2.0
/* Waiting for an exec: answered when it is over, removed, or the time is up. */
#include "api/execs/exec_reader.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#define WAIT_MS_DEFAULT 60000
#define WAIT_MS_MAX     3600000

struct wait {
	struct http_req *req;
	struct exec *e; /* NULL: removed */
	struct exec_watch watch;
	struct loop_timer *timer;
	bool is_answered;
};

static void answer(struct wait *w)
{
	struct reply reply;
	struct err err;

	if (w->is_answered)
		return;
	w->is_answered = true;
	if (!w->e) {
		(void)exec_reader_gone(&err);
		http_reply_err(w->req, &err);
		return;
	}
	exec_to_json(w->e, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, w->req, 200);
}

static void on_watch(struct exec *e, void *arg)
{
	struct wait *w = arg;

	w->e = e;
	if (!e || exec_is_over(e))
		answer(w);
}

static void on_time_up(struct loop *loop, void *arg)
{
	(void)loop;
	answer(arg);
}

static void on_done(void *arg)
{
	struct wait *w = arg;

	exec_watch_remove(&w->watch);
	loop_timer_free(w->timer);
	free(w);
}

int wait_exec(struct http_req *req, struct err *err)
{
	uint64_t timeout_ms = WAIT_MS_DEFAULT;
	struct exec *e;
	struct wait *w;
	int r = http_query_u64(req, "timeout_ms", 0, WAIT_MS_MAX, &timeout_ms, err);

	if (r == 0)
		r = find_exec(req, &e, err);
	if (r < 0)
		return r;
	w = xnew0(struct wait);
	*w = (struct wait){.req = req,
	                   .e = e,
	                   .watch = {.fn = on_watch, .arg = w},
	                   .timer = loop_timer_new(http_loop(req), on_time_up, w)};
	exec_watch_add(e, &w->watch);
	http_on_done(req, on_done, w);
	loop_timer_set_in(w->timer, exec_is_over(e) ? 0 : timeout_ms * 1000);
	return 0;
}
