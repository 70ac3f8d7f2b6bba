// SPDX-License-Identifier: Apache-2.0
/* The control plane's sandboxes. What takes the broker's time is answered later. */
#include "compat/e2b/find.h"

struct later {                /* stands in place of the request, whose client may leave meanwhile */
	struct http_req *req; /* NULL: the client is gone */
	void (*reply)(struct http_req *req, struct sandbox *s);
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct later *)arg)->req = NULL;
}

static struct later *later_new(struct http_req *req,
                               void (*reply)(struct http_req *req, struct sandbox *s))
{
	struct later *l = xnew0(struct later);

	*l = (struct later){.req = req, .reply = reply};
	http_on_done(req, on_client_done, l);
	return l;
}

static void later_free(struct later *l)
{
	if (l->req)
		http_on_done(l->req, NULL, NULL);
	free(l);
}

static void later_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct later l = *(struct later *)arg;

	later_free(arg);
	if (!l.req)
		return;
	if (err)
		http_reply_err(l.req, err);
	else
		l.reply(l.req, s);
}

static void reply_nothing(struct http_req *req, struct sandbox *s)
{
	(void)s;
	http_reply(req, 204, NULL, NULL, 0);
}

int e2b_kill_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	int r = e2b_find(req, &s, err);

	if (r == 0)
		sandbox_delete(s, END_DELETED, later_send, later_new(req, reply_nothing));
	return r;
}
