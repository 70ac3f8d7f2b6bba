// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes: makes them, copies them, lists them and removes them; and sets the owner of layers and
 * volumes. None of this takes long but a copy, which is answered later. A broker that leaves does
 * not wait for copies: nothing is left of them then.
 */
#include "broker/broker_private.h"

static int refuse(const struct broker *b, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, 0, "engine %s has no volumes", b->base->name);
}

int volumes_do_make(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	(void)fds;
	if (!b->base->make_volume)
		return refuse(b, &reply->err);
	return b->base->make_volume(b->hosts[0], &req->volume, &reply->err);
}

struct copy_wait {
	struct list link; /* in the broker's copies */
	struct broker *broker;
	uint64_t tag;
};

static void on_copied(const struct err *err, void *arg)
{
	struct copy_wait *w = arg;
	struct msg_reply reply;

	box_reply_init(&reply, MSG_VOLUME_COPY, w->tag, "");
	if (err)
		reply.err = *err;
	wire_reply(w->broker->wire, &reply, NULL);
	list_remove(&w->link);
	free(w);
}

int volumes_do_copy(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct copy_wait *w;
	int r;

	(void)fds;
	if (!b->base->copy_volume)
		return refuse(b, &reply->err);
	w = xnew0(struct copy_wait);
	*w = (struct copy_wait){.broker = b, .tag = req->tag};
	r = b->base->copy_volume(b->hosts[0], &req->volume_copy, on_copied, w, &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	list_append(&b->copies, &w->link);
	return 1;
}

void volumes_free(struct broker *b)
{
	list_for_each (&b->copies, struct copy_wait, w, link) {
		list_remove(&w->link);
		free(w);
	}
}

struct volume_list {
	struct broker *broker;
	uint64_t tag;
};

static void list_one(const struct volume_info *info, void *arg)
{
	const struct volume_list *list = arg;
	struct msg_reply row;

	box_reply_init(&row, MSG_VOLUMES, list->tag, info->id);
	row.volume = *info;
	wire_reply(list->broker->wire, &row, NULL);
}

int volumes_do_list(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct volume_list list = {b, req->tag};

	(void)reply;
	(void)fds;
	if (b->base->each_volume)
		b->base->each_volume(b->hosts[0], list_one, &list);
	return 0;
}

int volumes_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	(void)fds;
	if (!b->base->discard_volume)
		return 0;
	return b->base->discard_volume(b->hosts[0], req->volume.id, &reply->err);
}

int volumes_do_owner(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	(void)fds;
	if (b->base->weigh)
		b->base->weigh(b->hosts[0], req->owner.layer, req->owner.number, req->owner.weight,
		               false);
	if (!b->base->set_owner)
		return 0;
	return b->base->set_owner(b->hosts[0], req->owner.layer, req->owner.number, &reply->err);
}
