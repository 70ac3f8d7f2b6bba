// SPDX-License-Identifier: Apache-2.0
/* A child syncs the layers to disk, so that only the request for it has to wait. */
#include "broker/broker_private.h"

static void on_synced(struct loop *loop, int wait_status, void *arg)
{
	struct broker *b = arg;
	struct msg_reply reply;

	(void)loop;
	b->syncer = NULL;
	box_reply_init(&reply, MSG_SYNC, b->sync_tag, "");
	if (wait_status != 0)
		(void)err_set(&reply.err, ERR_INTERNAL, EIO,
		              "the layers could not be brought to disk; a new sandbox is deleted "
		              "again, all else stays done");
	wire_reply(b->wire, &reply, NULL);
	broker_work_end(b);
}

int sync_do(struct broker *b, const struct msg_request *req, struct msg_reply *reply, int *fds)
{
	int pidfd = -1, r;

	(void)fds;
	if (!b->base->sync_layers)
		return 0;
	if (b->syncer)
		return err_set(&reply->err, ERR_CONFLICT, EBUSY, "the layers are being synced");
	r = b->base->sync_layers(b->hosts[0], &pidfd);
	if (r == 0)
		r = loop_child_take(b->config.loop, pidfd, on_synced, b, &b->syncer);
	if (r < 0)
		return err_set(&reply->err, ERR_INTERNAL, -r, "cannot bring the layers to disk");
	b->sync_tag = req->tag;
	broker_work_begin(b);
	return 1;
}
