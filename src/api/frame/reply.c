// SPDX-License-Identifier: Apache-2.0
#include "api/frame/reply.h"

struct json_writer *reply_begin_bare(struct reply *r)
{
	buf_init(&r->body, REPLY_BYTES_MAX);
	json_writer_init(&r->w, &r->body);
	return &r->w;
}

struct json_writer *reply_begin(struct reply *r)
{
	json_open_object(reply_begin_bare(r), NULL);
	return &r->w;
}

int reply_send(struct reply *r, struct http_req *req, int status, struct err *err)
{
	int result;

	if (r->w.depth > 0)
		json_close_object(&r->w);
	result = json_writer_end(&r->w);
	if (result < 0)
		(void)err_set(err, ERR_TOO_LARGE, 0, "the answer is larger than %d MiB",
		              REPLY_BYTES_MAX >> 20);
	else
		http_reply_json(req, status, &r->body);
	buf_done(&r->body);
	return result;
}

void reply_send_late(struct reply *r, struct http_req *req, int status)
{
	struct err err;

	if (reply_send(r, req, status, &err) < 0)
		http_reply_err(req, &err);
}
