// SPDX-License-Identifier: Apache-2.0
#include "api/frame/late_reply.h"

static void on_client_done(void *arg)
{
	((struct late_reply *)arg)->req = NULL;
}

void *late_reply_new(struct http_req *req, size_t size)
{
	struct late_reply *late = xcalloc(1, size);

	late->req = req;
	http_on_done(req, on_client_done, late);
	return late;
}

int late_reply_drop(void *late, int r)
{
	(void)late_reply_take(late, NULL);
	return r;
}

struct http_req *late_reply_take(void *late, const struct err *err)
{
	struct http_req *req = ((struct late_reply *)late)->req;

	if (req)
		http_on_done(req, NULL, NULL); /* a reply's end concerns nobody any more */
	if (req && err)
		http_reply_err(take_ptr(req), err); /* err may lie in what is freed */
	free(late);
	return req;
}
