// SPDX-License-Identifier: Apache-2.0
/* Snapshots: takes them, lists them and removes them. */
#include "broker/broker_private.h"

#include <string.h>

struct snapshot_wait {
	struct broker *broker;
	uint32_t op;
	uint64_t tag;
	char id[ID_SIZE];
};

static struct snapshot_wait *wait_new(struct broker *b, const struct msg_request *req)
{
	struct snapshot_wait *w = xnew0(struct snapshot_wait);

	*w = (struct snapshot_wait){.broker = b, .op = req->op, .tag = req->tag};
	memcpy(w->id, req->id, sizeof(w->id));
	return w;
}

static void answer(struct snapshot_wait *w, const struct snapshot_info *info, const struct err *err)
{
	struct broker *b = w->broker;
	struct msg_reply reply;

	box_reply_init(&reply, w->op, w->tag, w->id);
	if (info)
		reply.snapshot = *info;
	if (err)
		reply.err = *err;
	free(w);
	wire_reply(b->wire, &reply, NULL);
	broker_work_end(b);
}

static void on_taken(const struct snapshot_info *info, const struct err *err, void *arg)
{
	answer(arg, info, err);
}

int snapshots_do_take(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	const struct box *box = box_find(b, req->id);
	const struct digest *base = box ? &box->spec.image : &req->snapshot.base;
	struct snapshot_wait *w;
	int r;

	(void)fds;
	if (!(box ? box->engine : b->base)->snapshot)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no snapshots",
		               (box ? box->engine : b->base)->name);
	if (box && box->state != BOX_RUNNING)
		return err_set(&reply->err, ERR_CONFLICT, EBUSY, "sandbox %s is %s", req->id,
		               box->state == BOX_STARTING ? "starting" : "ending");
	w = wait_new(b, req);
	r = b->base->snapshot(b->hosts[0], req->id, base, &req->snapshot.spec, on_taken, w,
	                      &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	broker_work_begin(b);
	return 1;
}

struct snapshot_list {
	struct broker *broker;
	uint64_t tag;
};

static void list_one(const struct snapshot_info *info, void *arg)
{
	const struct snapshot_list *list = arg;
	struct msg_reply row;

	box_reply_init(&row, MSG_SNAPSHOTS, list->tag, info->id);
	row.snapshot = *info;
	wire_reply(list->broker->wire, &row, NULL);
}

int snapshots_do_list(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	struct snapshot_list list = {b, req->tag};

	(void)reply;
	(void)fds;
	if (b->base->each_snapshot)
		b->base->each_snapshot(b->hosts[0], list_one, &list);
	return 0;
}

static void on_removed(void *arg)
{
	answer(arg, NULL, NULL);
}

int snapshots_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                        int *fds)
{
	struct snapshot_wait *w;

	(void)reply;
	(void)fds;
	if (!b->base->discard_snapshot)
		return 0;
	w = wait_new(b, req);
	if (b->base->discard_snapshot(b->hosts[0], req->snapshot_id, on_removed, w) == 0) {
		free(w);
		return 0;
	}
	broker_work_begin(b);
	return 1;
}
