// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/pending_reply.h"

#include "api/frame/reply.h"
#include "api/nodes/node_list.h"

struct pending_reply *pending_reply_new(struct http_req *req, int status,
                                        void (*reply)(struct http_req *req, int status,
                                                      struct sandbox *s))
{
	struct pending_reply *l = late_reply_new(req, sizeof(*l));

	l->status = status;
	l->reply = reply;
	return l;
}

void pending_reply_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct pending_reply l = *(struct pending_reply *)arg;
	struct http_req *req = late_reply_take(arg, err);

	if (!l.late.req && s && l.is_undone)
		sandbox_delete(s, END_DELETED, NULL, NULL);
	if (req)
		l.reply(req, l.status, s);
}

void pending_reply_nothing(struct http_req *req, int status, struct sandbox *s)
{
	(void)s;
	http_reply(req, status, NULL, NULL, 0);
}

void pending_reply_sandbox(struct http_req *req, int status, struct sandbox *s)
{
	struct reply reply;

	if (status == 201)
		node_tell_name(req);
	e2b_put_sandbox(req, s, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, status);
}
