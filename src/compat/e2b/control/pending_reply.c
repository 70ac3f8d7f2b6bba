// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/pending_reply.h"

#include "api/frame/reply.h"

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct pending_reply *)arg)->req = NULL;
}

struct pending_reply *pending_reply_new(struct http_req *req, int status,
                                        void (*reply)(struct http_req *req, int status,
                                                      struct sandbox *s))
{
	struct pending_reply *l = xnew0(struct pending_reply);

	*l = (struct pending_reply){.req = req, .status = status, .reply = reply};
	http_on_done(req, on_client_done, l);
	return l;
}

void pending_reply_free(struct pending_reply *l)
{
	if (l->req)
		http_on_done(l->req, NULL, NULL);
	free(l);
}

static void on_undone(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

void pending_reply_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct pending_reply l = *(struct pending_reply *)arg;

	pending_reply_free(arg);
	if (!l.req) {
		if (s && l.is_undone)
			sandbox_delete(s, END_DELETED, on_undone, NULL);
		return;
	}
	if (err)
		http_reply_err(l.req, err);
	else
		l.reply(l.req, l.status, s);
}

void pending_reply_nothing(struct http_req *req, int status, struct sandbox *s)
{
	(void)s;
	http_reply(req, status, NULL, NULL, 0);
}

void pending_reply_sandbox(struct http_req *req, int status, struct sandbox *s)
{
	struct reply reply;

	e2b_put_sandbox(req, s, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, status);
}
