// SPDX-License-Identifier: Apache-2.0
/* Files of snapshots that go to other nodes of the cluster, and come from them
 * (engine/template/sealed_file.h). */
#include "broker/broker_private.h"

#include "base/fd.h"

#include <fcntl.h>
#include <string.h>

struct sealed_wait {
	struct list link; /* in the broker's */
	struct broker *broker;
	uint64_t tag;
};

int sealed_do_open(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	if (!b->base->open_sealed)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no snapshots",
		               b->base->name);
	return b->base->open_sealed(b->hosts[0], &req->sealed, fds, &reply->err);
}

static void on_sealed(const struct sealed_file_result *result, int fd, const struct err *err,
                      void *arg)
{
	struct sealed_wait *s = arg;
	struct broker *b = s->broker;
	int fds[MSG_FDS_MAX] = {-1, -1, -1, -1};
	struct msg_reply reply;

	box_reply_init(&reply, MSG_SEALED_CLOSE, s->tag, "");
	if (result) {
		reply.sealed = *result;
		fds[0] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (err)
		reply.err = *err;
	else if (fds[0] < 0)
		(void)err_set(&reply.err, ERR_INTERNAL, errno, "cannot hand out the file");
	list_remove(&s->link);
	free(s);
	wire_reply(b->wire, &reply, fds);
	broker_work_end(b);
}

int sealed_do_close(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct sealed_wait *s;
	int r;

	(void)fds;
	if (!b->base->close_sealed)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no snapshots",
		               b->base->name);
	s = xnew0(struct sealed_wait);
	*s = (struct sealed_wait){.broker = b, .tag = req->tag};
	list_init(&s->link);
	r = b->base->close_sealed(b->hosts[0], req->sealed.number, on_sealed, s, &reply->err);
	if (r != 1) {
		free(s);
		return r;
	}
	list_append(&b->sealed_waits, &s->link);
	broker_work_begin(b);
	return 1;
}

int sealed_do_drop(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	(void)reply;
	(void)fds;
	if (b->base->drop_sealed)
		b->base->drop_sealed(b->hosts[0], req->sealed.number);
	return 0;
}

void sealed_free(struct broker *b)
{
	list_for_each (&b->sealed_waits, struct sealed_wait, s, link) {
		list_remove(&s->link);
		free(s);
	}
}
