// SPDX-License-Identifier: Apache-2.0
/*
 * Errors in the form of Vercel's client: {"error": {"code", "message"}}. The client repeats a call
 * after 429 and 5xx, and resumes a sandbox after 410. So an error that a repetition cannot help is
 * a 400, and 410 is used only for sandboxes.
 */
#include "compat/vercel/wire.h"

#define BODY_MAX (16 * 1024)

void vercel_refuse(struct http_req *req, int status, const char *code, const char *message)
{
	auto_call(buf_done) struct buf body = BUF_INIT(BODY_MAX);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	json_open_object(&w, "error");
	json_put_str(&w, "code", code);
	json_put_str(&w, "message", message);
	json_put_str(&w, "request_id", http_request_id(req));
	json_close_object(&w);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		buf_truncate(&body, 0);
	http_reply_json(req, status, &body);
}

void vercel_fail(struct http_req *req, const struct err *err)
{
	int status = err_code_status(err->code);
	const char *code = err_code_name(err->code);

	switch (err->code) {
	case ERR_GONE:
		code = err->errnum == ENODATA ? "snapshot_not_found" : "sandbox_stopped";
		break;
	case ERR_BAD_REQUEST:
	case ERR_INVALID_FIELD:
	case ERR_CONFLICT:
	case ERR_UNSUPPORTED:
	case ERR_SOURCE:
	case ERR_FILE_EXISTS:
	case ERR_FILE_CHANGED:
	case ERR_FILE_DENIED:
	case ERR_FILE_INVALID:
	case ERR_DISK_FULL:
	case ERR_HOST_DISK_FULL:
		status = 400;
		code = "bad_request";
		break;
	default: /* the code's own words do */
		break;
	}
	vercel_refuse(req, status, code, err->message);
}
