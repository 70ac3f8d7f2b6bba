// SPDX-License-Identifier: Apache-2.0
/*
 * Backups: freezes all that is kept, and removes the frozen copies again. The gateway copies its
 * database in the same turn in which it asks. The broker reads no further request while the copies
 * are made. So all earlier requests have begun and no later one has, and the database and the
 * copies are of one moment.
 */
#include "broker/broker_private.h"

struct backup_wait {
	struct broker *broker;
	uint32_t op;
	uint64_t tag;
};

static struct backup_wait *wait_new(struct broker *b, const struct msg_request *req)
{
	struct backup_wait *w = xnew0(struct backup_wait);

	*w = (struct backup_wait){.broker = b, .op = req->op, .tag = req->tag};
	return w;
}

static void answer(struct backup_wait *w, const struct backup_counts *counts, const struct err *err)
{
	struct broker *b = w->broker;
	struct msg_reply reply;

	box_reply_init(&reply, w->op, w->tag, "");
	if (counts)
		reply.backup = *counts;
	if (err)
		reply.err = *err;
	free(w);
	wire_reply(b->wire, &reply, NULL);
	broker_work_end(b);
}

static void on_frozen(const struct backup_counts *counts, const struct err *err, void *arg)
{
	struct backup_wait *w = arg;

	broker_set_freezing(w->broker, false);
	answer(w, counts, err);
}

int backups_do_freeze(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	struct backup_wait *w;
	int r;

	(void)fds;
	if (!b->base->freeze_kept)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no backups",
		               b->base->name);
	w = wait_new(b, req);
	r = b->base->freeze_kept(b->hosts[0], on_frozen, w, &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	broker_work_begin(b);
	broker_set_freezing(b, true);
	return 1;
}

static void on_released(void *arg)
{
	answer(arg, NULL, NULL);
}

int backups_do_release(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                       int *fds)
{
	struct backup_wait *w;

	(void)reply;
	(void)fds;
	if (!b->base->release_kept)
		return 0;
	w = wait_new(b, req);
	if (b->base->release_kept(b->hosts[0], on_released, w) == 0) {
		free(w);
		return 0;
	}
	broker_work_begin(b);
	return 1;
}
