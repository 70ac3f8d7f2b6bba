// SPDX-License-Identifier: Apache-2.0
/*
 * A command's stdin. Each call says at which byte its data begins, and the answer how many bytes
 * have been written in all. So a client that has not seen an answer sends the same again, and what
 * has come twice is left out. A call is answered when all of its bytes are taken.
 */
#include "api/frame/body.h"
#include "api/frame/reply.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"
#include "sandbox/exec/exec_feed.h"

#include <string.h>

#define BODY_MAX    (64 * 1024 + 2 * 1024 * 1024) /* a command with all its words */
#define UNAVAILABLE "command_stdin_unavailable"

struct call {
	struct http_req *req;
	struct exec *e;
	struct exec_feed *feed; /* NULL: it is through */
	char session_id[ID_SIZE];
};

static void reply(const struct call *c)
{
	auto_call(buf_done) struct buf body = BUF_INIT(BODY_MAX);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	put_command(&w, "command", c->e, c->session_id, /* is_first= */ false);
	json_put_u64(&w, "bytesWritten", exec_stdin_bytes(c->e));
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		buf_truncate(&body, 0);
	http_reply_json(c->req, 200, &body);
}

static void on_fed(const struct err *err, void *arg)
{
	struct call *c = arg;

	c->feed = NULL;
	if (!err)
		reply(c);
	else if (err->code == ERR_GONE)
		vercel_refuse(c->req, 404, "not_found", err->message);
	else
		vercel_refuse(c->req, 400, UNAVAILABLE, err->message);
}

static void on_done(void *arg)
{
	struct call *c = arg;

	if (c->feed)
		exec_feed_cancel(c->feed);
	free(c);
}

/* Whether it was answered. */
static bool is_refused(struct http_req *req, const struct exec *e, bool has_input)
{
	if (exec_is_over(e)) {
		vercel_refuse(req, 404, "not_found", "the command has exited");
		return true;
	}
	if (!exec_has_stdin(e)) {
		vercel_refuse(req, 400, UNAVAILABLE,
		              "the command was not started with attachStdin");
		return true;
	}
	if (has_input && exec_is_fed(e)) { /* of a caller who has left, perhaps: the client tries
		                              again */
		vercel_refuse(req, 503, "unavailable", "another write is under way");
		return true;
	}
	return false;
}

/* Leaves out the bytes of data that have come already. */
static int skip_known(const struct exec *e, uint64_t offset, char *data, size_t *len,
                      struct err *err)
{
	const uint64_t written = exec_stdin_bytes(e);
	size_t known;

	if (offset > written)
		return err_field(err, "offset", "is behind the %llu bytes that have been written",
		                 (unsigned long long)written);
	known = (size_t)MIN(written - offset, (uint64_t)*len);
	*len -= known;
	if (known > 0)
		memmove(data, data + known, *len);
	return 0;
}

int vercel_write_input(struct http_req *req, struct err *err)
{
	const char *text = NULL;
	uint64_t offset = UINT64_MAX;
	bool closes = false;
	const struct json_field fields[] = {
		{"data", JSON_FIELD_STRING, &text, .max = SIZE_MAX},
		{"offset", JSON_FIELD_U64, &offset, .max = INT64_MAX},
		{"close", JSON_FIELD_BOOL, &closes},
	};
	auto_free char *data = NULL;
	struct vercel_session *s;
	size_t len = 0;
	struct exec *e;
	struct call *c;
	int r = find_command(req, &s, &e, err);

	if (r == 0)
		r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && text)
		r = body_take_bytes(NULL, text, "data", &data, &len, err);
	if (r != 0)
		return r;
	if (is_refused(req, e, len > 0 || closes))
		return 0;
	if (offset != UINT64_MAX && len > 0)
		r = skip_known(e, offset, data, &len, err);
	if (r < 0)
		return r;
	c = xnew0(struct call);
	*c = (struct call){.req = req, .e = e};
	memcpy(c->session_id, s->id, sizeof(c->session_id));
	http_on_done(req, on_done, c);
	if (len > 0 || closes)
		c->feed = exec_feed(e, take_ptr(data), len, closes, on_fed, c);
	else
		reply(c);
	return 0;
}
