// SPDX-License-Identifier: Apache-2.0
#include "api/sandboxes/sandbox_reply.h"

#include "api/frame/reply.h"
#include "api/network/ports.h"

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	struct sandbox_reply *a = arg;

	(void)req;
	(void)whole;
	a->req = NULL;
}

struct sandbox_reply *sandbox_reply_new(struct http_req *req, int status)
{
	struct sandbox_reply *a = xnew0(struct sandbox_reply);

	*a = (struct sandbox_reply){.req = req, .status = status};
	http_on_done(req, on_client_done, a);
	return a;
}

void sandbox_reply_free(struct sandbox_reply *a)
{
	if (a->req)
		http_on_done(a->req, NULL, NULL); /* a reply's end concerns nobody any more */
	free(a);
}

static void on_undone(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

void sandbox_reply_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct sandbox_reply a = *(struct sandbox_reply *)arg;
	struct json_writer *w;
	struct reply reply;

	sandbox_reply_free(arg);
	if (!a.req) {
		if (s && a.is_undone)
			sandbox_delete(s, END_DELETED, on_undone, NULL);
		return;
	}
	if (err) {
		http_reply_err(a.req, err);
		return;
	}
	if (!sandbox_is_durable(s))
		http_reply_at_once(a.req);
	w = reply_begin(&reply);
	sandbox_put_fields(s, w);
	if (a.ports.n > 0)
		ports_open(w, a.req, s, &a.ports);
	if (a.tells_how) {
		json_put_bool(w, "created", a.is_created);
		json_put_bool(w, "resumed", a.is_resumed);
	}
	reply_send_late(&reply, a.req, a.status);
}
