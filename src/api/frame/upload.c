// SPDX-License-Identifier: Apache-2.0
#include "api/frame/upload.h"

static void push(struct upload *in)
{
	while (in->held.len > 0) {
		size_t n = in->ops->write(in->into, in->held.data, in->held.len);

		if (n == 0)
			return; /* upload_go_on() comes, or its end tells why not */
		buf_consume(&in->held, n);
	}
	if (in->is_whole)
		in->ops->finish(in->into);
	else
		http_body_pause(in->req, false);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct upload *in = arg;
	struct err err;

	if (!in->into)
		return; /* it ended early, and that was answered */
	if (!data) {
		in->is_whole = true;
		if (in->held.len == 0)
			in->ops->finish(in->into);
		return;
	}
	if (buf_append(&in->held, data, len) < 0) {
		(void)err_set(&err, ERR_INTERNAL, 0, "a piece of the body is too large");
		in->ops->leave(take_ptr(in->into));
		http_reply_err(req, &err);
		return;
	}
	http_body_pause(req, true);
	push(in);
}

void upload_go_on(struct upload *in)
{
	if (!in->into)
		return;
	if (!in->is_reading) {
		in->is_reading = true;
		http_on_body(in->req, on_body, in);
	} else if (in->held.len > 0) {
		push(in);
	}
}

void upload_done(struct upload *in)
{
	if (in->into)
		in->ops->leave(in->into);
	buf_done(&in->held);
}
