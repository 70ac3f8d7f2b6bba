// SPDX-License-Identifier: Apache-2.0
#include "api/sandboxes/sandbox_reply.h"

#include "api/frame/reply.h"
#include "api/network/ports.h"
#include "api/nodes/node_list.h"

struct sandbox_reply *sandbox_reply_new(struct http_req *req, int status)
{
	struct sandbox_reply *a = late_reply_new(req, sizeof(*a));

	a->status = status;
	return a;
}

void sandbox_reply_send(struct sandbox *s, const struct err *err, void *arg)
{
	const struct sandbox_reply a = *(struct sandbox_reply *)arg;
	struct http_req *req = late_reply_take(arg, err);
	struct json_writer *w;
	struct reply reply;

	if (!a.late.req && s && a.is_undone)
		sandbox_delete(s, END_DELETED, NULL, NULL);
	if (!req)
		return;
	if (!sandbox_is_durable(s))
		http_reply_at_once(req);
	if (a.is_created)
		node_tell_name(req);
	w = reply_begin(&reply);
	sandbox_put_fields(s, w);
	if (a.ports.n > 0)
		ports_open(w, req, s, &a.ports);
	if (a.tells_how) {
		json_put_bool(w, "created", a.is_created);
		json_put_bool(w, "resumed", a.is_resumed);
	}
	reply_send_late(&reply, req, a.status);
}
