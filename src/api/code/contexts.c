// SPDX-License-Identifier: Apache-2.0
/* Contexts: make, look at, interrupt, restart and remove interpreters. */
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/frame/wake.h"
#include "api/handlers.h"

#include "sandbox/code/context.h"

static int find_context(const struct http_req *req, struct context **ret, struct err *err)
{
	const char *id = http_param(req, "context_id");
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	*ret = context_find(s, id);
	return *ret ? 0
	            : err_set(err, ERR_NOT_FOUND, 0, "no context '%.64s' in sandbox '%s'", id,
	                      sandbox_id(s));
}

static int reply_context(struct http_req *req, int status, const struct context *c, struct err *err)
{
	struct reply reply;

	context_to_json(c, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, status, err);
}

int create_context(struct http_req *req, struct err *err)
{
	struct context_spec spec;
	struct sandbox *s;
	struct context *c;
	int r = body_read_context(http_json(req), &spec, err);

	if (r == 0)
		r = find_awake(req, &s, err);
	if (r == 0)
		r = context_create(s, &spec, &c, err);
	if (r != 0)
		return r;
	return reply_context(req, 201, c, err);
}

static void put_context(struct context *c, void *arg)
{
	context_to_json(c, arg, NULL);
}

int list_contexts(struct http_req *req, struct err *err)
{
	struct reply reply;
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	json_open_array(reply_begin(&reply), "contexts");
	context_each(s, put_context, &reply.w);
	json_close_array(&reply.w);
	return reply_send(&reply, req, 200, err);
}

int get_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find_context(req, &c, err);

	return r < 0 ? r : reply_context(req, 200, c, err);
}

int delete_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find_context(req, &c, err);

	if (r == 0)
		r = reply_context(req, 200, c, err);
	if (r == 0)
		context_remove(c);
	return r;
}

int restart_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find_context(req, &c, err);

	if (r == 0)
		r = context_restart(c, err);
	return r < 0 ? r : reply_context(req, 200, c, err);
}

int interrupt_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find_context(req, &c, err);

	if (r == 0)
		r = context_interrupt(c, err);
	return r < 0 ? r : reply_context(req, 200, c, err);
}
