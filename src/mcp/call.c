// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a call. The reply is one JSON object, or, if the client gave a progress token and
 * accepts event streams, a stream that ends with it; this is decided when there is the first thing
 * to report. If the client disconnects, the call is cancelled.
 */
#include "mcp/mcp_private.h"

#include "api/frame/find.h"
#include "http/stream.h"
#include "mcp/server.h"

#include <stdio.h>
#include <string.h>

#define PROGRESS_TEXT_MAX 4096

struct mcp_call *call_ref(struct mcp_call *c)
{
	c->refs++;
	return c;
}

void call_unref(struct mcp_call *c)
{
	if (--c->refs > 0)
		return;
	json_decref(c->id);
	json_decref(c->progress_token);
	json_decref(c->arguments);
	json_decref(c->wish);
	free(c);
}

/* Ends the call without a further reply; its waiting parts see is_over. */
static void leave(struct mcp_call *c)
{
	c->is_over = true;
	list_remove(&c->link);
	http_on_done(c->req, NULL, NULL);
	call_unref(c);
}

static void on_client_done(void *arg)
{
	struct mcp_call *c = arg;

	call_ref(c);
	leave(c);
	if (c->tool->cancel)
		c->tool->cancel(c);
	call_unref(c);
}

/* A cancelled request gets no answer, as MCP requires: its stream ends, or it is cut. */
void call_cancel(struct mcp_call *c)
{
	struct http_req *req = c->req;
	bool streams = c->streams;

	on_client_done(c);
	if (streams)
		http_stream_end(req);
	else
		http_reply(req, 202, NULL, NULL, 0);
}

static size_t count_calls(const struct mcp *m, const char *key)
{
	size_t n = 0;

	list_for_each (&m->calls, struct mcp_call, c, link)
		n += strcmp(c->key_id, key) == 0;
	return n;
}

static int check_call(const struct mcp *m, const struct http_req *req,
                      const struct rpc_message *msg, struct err *err)
{
	const json_t *arguments = json_object_get(msg->params, "arguments");
	const char *name = rpc_param(msg, "name");

	if (!name || !tool_find(name))
		return err_set(err, ERR_NOT_FOUND, 0, "there is no tool '%.64s'", name ? name : "");
	if (arguments && !json_is_object(arguments))
		return err_set(err, ERR_INVALID_FIELD, 0, "arguments must be an object");
	if (count_calls(m, key_id(http_user(req))) >= MCP_KEY_CALLS)
		return err_set(err, ERR_LIMIT, 0, "this key has %d calls under way", MCP_KEY_CALLS);
	return 0;
}

int call_start(struct mcp *m, struct http_req *req, struct session *s,
               const struct rpc_message *msg, struct err *err)
{
	const json_t *arguments = json_object_get(msg->params, "arguments");
	auto_json json_t *wish = NULL;
	struct err failure;
	struct mcp_call *c;
	int r = check_call(m, req, msg, err);

	if (r == 0)
		r = place_wish(req, &wish, err);
	if (r < 0)
		return r;
	c = xnew0(struct mcp_call);
	*c = (struct mcp_call){
		.refs = 1,
		.mcp = m,
		.session = s,
		.req = req,
		.id = json_incref(unconst(msg->id)),
		.progress_token = json_incref(unconst(msg->progress_token)),
		.is_modern = msg->version != NULL,
		.tool = tool_find(rpc_param(msg, "name")),
		.arguments = arguments ? json_copy(unconst(arguments)) : json_object(),
		.wish = take_ptr(wish),
	};
	(void)snprintf(c->key_id, sizeof(c->key_id), "%s", key_id(http_user(req)));
	(void)snprintf(c->project_id, sizeof(c->project_id), "%s", caller_project(req));
	if (c->tool->flags & TOOL_READS)
		http_set_read(req);
	list_append(&m->calls, &c->link);
	http_on_done(req, on_client_done, c);
	call_ref(c);
	if (place_call(c, &failure) < 0)
		call_fail(c, &failure);
	call_unref(c);
	return 0;
}

static bool takes_events(const struct http_req *req)
{
	const char *accept = http_header(req, "Accept");

	return accept && strstr(accept, "text/event-stream");
}

void call_progress(struct mcp_call *c, const char *text, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(8 * PROGRESS_TEXT_MAX);
	struct json_writer w;

	if (!c->progress_token || c->is_over || !takes_events(c->req))
		return;
	if (!c->streams)
		event_stream_start(c->req, EVENTS_SSE);
	c->streams = true;
	if (http_stream_pending(c->req) >= HTTP_HIGH_WATER)
		return; /* all of it is in the result */
	json_writer_init(&w, &out);
	json_open_object(&w, NULL);
	json_put_str(&w, "jsonrpc", "2.0");
	json_put_str(&w, "method", "notifications/progress");
	json_open_object(&w, "params");
	json_put_value(&w, "progressToken", c->progress_token);
	json_put_u64(&w, "progress", ++c->n_progress);
	json_put_strn(&w, "message", text, MIN(len, PROGRESS_TEXT_MAX));
	json_close_object(&w);
	json_close_object(&w);
	if (json_writer_end(&w) == 0)
		(void)!event_stream_send(c->req, EVENTS_SSE, "message", 0, out.data, out.len);
}

static void answer(struct mcp_call *c, const struct buf *text)
{
	struct http_req *req = c->req;
	bool streams = c->streams;

	leave(c);
	if (!streams) {
		http_reply_json(req, 200, text);
		return;
	}
	(void)!event_stream_send(req, EVENTS_SSE, "message", 0, text->data, text->len);
	http_stream_end(req);
}

void result_init(struct result *r)
{
	r->is_error = r->is_plain = false;
	buf_init(&r->blocks, RESULT_BYTES_MAX);
	buf_init(&r->structured, RESULT_BYTES_MAX);
	json_writer_init(&r->block, &r->blocks);
	json_writer_init(&r->s, &r->structured);
	json_open_array(&r->block, NULL);
	json_open_object(&r->s, NULL);
}

void result_text(struct result *r, const char *text, size_t len)
{
	json_open_object(&r->block, NULL);
	json_put_str(&r->block, "type", "text");
	json_put_strn(&r->block, "text", text, len);
	json_close_object(&r->block);
}

void result_image(struct result *r, const char *type, const char *base64)
{
	json_open_object(&r->block, NULL);
	json_put_str(&r->block, "type", "image");
	json_put_str(&r->block, "data", base64);
	json_put_str(&r->block, "mimeType", type);
	json_close_object(&r->block);
}

void result_stream(struct result *r, const char *name, const struct excerpt *e, struct buf *all)
{
	size_t before = all->len;

	if (excerpt_put(e, all) < 0)
		abort(); /* the caller has made room */
	json_put_strn(&r->s, name, buf_str(all) + before, all->len - before);
	if (all->len > before && all->data[all->len - 1] != '\n' && buf_append(all, "\n", 1) < 0)
		abort();
}

static int put_result(struct mcp_call *c, const struct result *r, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	rpc_open(&w, c->id);
	json_open_object(&w, "result");
	server_put_common(&w, c->is_modern);
	json_put_raw(&w, "content", r->blocks.data, r->blocks.len);
	json_put_raw(&w, "structuredContent", r->structured.data, r->structured.len);
	json_put_bool(&w, "isError", r->is_error);
	json_close_object(&w);
	json_close_object(&w);
	return json_writer_end(&w);
}

void call_end(struct mcp_call *c, struct result *r)
{
	auto_call(buf_done) struct buf out = BUF_INIT(2 * RESULT_BYTES_MAX + 4096);
	struct err err;
	int rc;

	json_close_object(&r->s);
	rc = json_writer_end(&r->s);
	if (rc == 0 && r->is_plain)
		result_text(r, r->structured.data, r->structured.len);
	json_close_array(&r->block);
	if (rc == 0)
		rc = json_writer_end(&r->block);
	if (rc == 0)
		rc = put_result(c, r, &out);
	buf_done(&r->blocks);
	buf_done(&r->structured);
	if (rc == 0) {
		answer(c, &out);
		return;
	}
	(void)err_set(&err, ERR_TOO_LARGE, 0, "the result is larger than %d MiB",
	              RESULT_BYTES_MAX >> 20);
	(void)err_hint(&err, "write it to a file and read that in parts");
	call_fail(c, &err);
}

void call_fail(struct mcp_call *c, const struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024);
	struct result r;

	if (buf_printf(&text, "%s%s%s", err->message, err->hint[0] ? "\nHint: " : "", err->hint) <
	    0)
		abort(); /* both are bounded */
	result_init(&r);
	r.is_error = true;
	result_text(&r, text.data, text.len);
	json_put_str(&r.s, "error", err_code_name(err->code));
	json_put_str(&r.s, "message", err->message);
	if (err->hint[0])
		json_put_str(&r.s, "hint", err->hint);
	if (err->field[0])
		json_put_str(&r.s, "field", err->field);
	if (c->sandbox_id[0])
		json_put_str(&r.s, "sandbox_id", c->sandbox_id);
	call_end(c, &r);
}
