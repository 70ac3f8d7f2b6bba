// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/later.h"

#include "api/frame/reply.h"

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct later *)arg)->req = NULL;
}

struct later *later_new(struct http_req *req, int status,
                        void (*reply)(struct http_req *req, int status, struct sandbox *s))
{
	struct later *l = xnew0(struct later);

	*l = (struct later){.req = req, .status = status, .reply = reply};
	http_on_done(req, on_client_done, l);
	return l;
}

void later_free(struct later *l)
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

void later_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct later l = *(struct later *)arg;

	later_free(arg);
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

void later_nothing(struct http_req *req, int status, struct sandbox *s)
{
	(void)s;
	http_reply(req, status, NULL, NULL, 0);
}

void later_sandbox(struct http_req *req, int status, struct sandbox *s)
{
	struct reply reply;

	e2b_put_sandbox(req, s, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, status);
}
