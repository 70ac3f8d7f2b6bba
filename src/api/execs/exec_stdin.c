// SPDX-License-Identifier: Apache-2.0
/* The route that streams bytes to an exec's stdin. */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/log.h"

#include <string.h>

#define HELD_BYTES_MAX (1024 * 1024) /* more than the server hands over at once */

/* The body's bytes go straight in; what does not fit waits here while the client is not
 * read. */
struct upload {
	struct http_req *req;
	struct exec *e; /* NULL: removed */
	struct exec_watch watch;
	struct buf held;
	uint64_t bytes;
	bool is_whole; /* the body's end was seen */
	bool closes;
	bool is_answered;
};

static void upload_fail(struct upload *u, const struct err *err)
{
	u->is_answered = true;
	http_reply_err(u->req, err);
}

static void upload_succeed(struct upload *u)
{
	struct reply reply;

	u->is_answered = true;
	json_put_u64(reply_begin(&reply), "bytes", u->bytes);
	reply_send_late(&reply, u->req, 200);
}

static int upload_gone(struct err *err)
{
	return err_set(err, ERR_GONE, 0, "the exec has ended and takes no more input");
}

/* Takes from data what fits. < 0: answered. */
static ssize_t upload_write(struct upload *u, const char *data, size_t len)
{
	struct err err;
	ssize_t n = -ESRCH;

	if (!u->e || exec_is_over(u->e))
		(void)upload_gone(&err);
	else
		n = exec_write_stdin(u->e, data, len, &err);
	if (n < 0)
		upload_fail(u, &err);
	else
		u->bytes += (uint64_t)n;
	return n;
}

static void upload_finish(struct upload *u)
{
	struct err err;
	int r = 0;

	if (u->closes && (!u->e || exec_is_over(u->e)))
		r = upload_gone(&err);
	else if (u->closes)
		r = exec_close_stdin(u->e, &err);
	if (r < 0)
		upload_fail(u, &err);
	else
		upload_succeed(u);
}

static void upload_go_on(struct upload *u)
{
	while (!u->is_answered && u->held.len > 0) {
		ssize_t n = upload_write(u, u->held.data, u->held.len);

		if (n <= 0)
			return;
		buf_consume(&u->held, (size_t)n);
	}
	if (u->is_answered)
		return;
	if (u->is_whole)
		upload_finish(u);
	else
		http_body_pause(u->req, false);
}

static void upload_on_watch(struct exec *e, void *arg)
{
	struct upload *u = arg;

	u->e = e;
	if (u->held.len > 0)
		upload_go_on(u);
}

static void upload_on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct upload *u = arg;
	ssize_t n = 0;

	if (u->is_answered)
		return;
	if (!data) {
		u->is_whole = true;
		if (u->held.len == 0)
			upload_finish(u);
		return;
	}
	if (u->held.len == 0)
		n = upload_write(u, data, len);
	if (n < 0 || (size_t)n == len)
		return;
	if (buf_append(&u->held, data + n, len - (size_t)n) < 0) {
		struct err err;

		(void)err_set(&err, ERR_INTERNAL, 0, "a piece of the body is too large");
		upload_fail(u, &err);
		return;
	}
	http_body_pause(req, true);
}

static void upload_on_done(void *arg)
{
	struct upload *u = arg;

	exec_watch_remove(&u->watch);
	buf_done(&u->held);
	free(u);
}

int write_exec_stdin(struct http_req *req, struct err *err)
{
	struct upload *u;
	struct exec *e;
	bool closes = false;
	int r = http_query_bool(req, "eof", &closes, err);

	if (r == 0)
		r = find_exec(req, &e, err);
	if (r == 0 && exec_is_over(e))
		r = upload_gone(err);
	if (r < 0)
		return r;
	u = xnew0(struct upload);
	*u = (struct upload){.req = req,
	                     .e = e,
	                     .watch = {.fn = upload_on_watch, .arg = u},
	                     .held = BUF_INIT(HELD_BYTES_MAX),
	                     .closes = closes};
	exec_watch_add(e, &u->watch);
	http_on_done(req, upload_on_done, u);
	http_on_body(req, upload_on_body, u);
	return 0;
}
