// SPDX-License-Identifier: Apache-2.0
#include "api/execs/exec_reader.h"

#include "sandbox/exec/output_spool.h"

/* At once where this turn has time for it: who waits for a short command is told without delay. */
static void go_on(struct exec_reader *r)
{
	if (r->is_ended)
		return;
	if (loop_has_time(http_loop(r->req)))
		r->ops->pump(r);
	else
		exec_reader_again(r);
}

static void on_watch(struct exec *e, void *arg)
{
	struct exec_reader *r = arg;

	r->e = e;
	go_on(r);
}

static void on_drain(void *arg)
{
	go_on(arg);
}

static bool on_again(struct loop *loop, void *arg)
{
	struct exec_reader *r = arg;

	(void)loop;
	if (!r->is_ended)
		r->ops->pump(r);
	return true;
}

static void on_done(void *arg)
{
	struct exec_reader *r = arg;

	if (!http_is_whole(r->req) && r->kills_on_disconnect && r->e)
		exec_kill(r->e);
	exec_reader_free(r);
}

static void end_reply(struct http_req *req, const struct err *err, void *arg)
{
	(void)arg;
	if (err)
		http_reply_err(req, err);
	else
		http_stream_end(req);
}

void exec_reader_init(struct exec_reader *r, const struct exec_reader_ops *ops,
                      struct http_req *req, struct exec *e, exec_reader_end_fn end, void *arg)
{
	*r = (struct exec_reader){.ops = ops,
	                          .req = req,
	                          .e = e,
	                          .watch = {.fn = on_watch, .arg = r},
	                          .again = loop_job_new(http_loop(req), on_again, r),
	                          .end = end ? end : end_reply,
	                          .arg = arg};
	exec_watch_add(e, &r->watch);
	http_on_drain(req, on_drain, r);
	if (!end)
		http_on_done(req, on_done, r);
	exec_reader_again(r);
}

void exec_reader_free(struct exec_reader *r)
{
	if (!r)
		return;
	if (r->e && exec_is_over(r->e)) /* one that left early has its file open */
		spool_rest(exec_spool(r->e));
	exec_watch_remove(&r->watch);
	loop_job_free(r->again);
	r->ops->done(r);
	free(r);
}

void exec_reader_again(struct exec_reader *r)
{
	loop_job_start(r->again);
}

void exec_reader_end(struct exec_reader *r, const struct err *err)
{
	r->is_ended = true;
	r->end(r->req, err, r->arg);
}

int exec_reader_gone(struct err *err)
{
	return err_set(err, ERR_GONE, 0, "the exec was removed, or its sandbox ended");
}
