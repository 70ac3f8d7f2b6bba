// SPDX-License-Identifier: Apache-2.0
/*
 * Images: seals them, lists them and removes them. A seal is identified by its tag, so the gateway
 * can cancel only seals that it has asked for.
 */
#include "broker/broker_private.h"

#include <string.h>

struct seal_wait {
	struct list link; /* in the broker's seals */
	struct broker *broker;
	uint64_t tag;
	char id[ID_SIZE];
	struct image_build *seal;
};

static void on_seal(const struct image_build_result *result, const struct err *err, void *arg)
{
	struct seal_wait *w = arg;
	struct broker *b = w->broker;
	bool is_over = err || !digest_is_zero(&result->image);
	struct msg_reply reply;

	box_reply_init(&reply, MSG_SEAL, w->tag, w->id);
	if (err)
		reply.err = *err;
	else
		reply.seal = *result;
	wire_reply(b->wire, &reply, NULL);
	if (!is_over)
		return;
	list_remove(&w->link);
	free(w);
	broker_work_end(b);
}

int seals_do_seal(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds)
{
	const bool is_saved = req->seal.spec.snapshot[0] != '\0';
	const struct box *box = is_saved ? NULL : box_find(b, req->id);
	const struct digest *base = box ? &box->spec.image : &req->seal.base;
	struct seal_wait *w;
	int r;

	(void)fds;
	if (!(box ? box->engine : b->base)->build_image)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no templates",
		               (box ? box->engine : b->base)->name);
	if (box && box->state != BOX_RUNNING)
		return err_set(&reply->err, ERR_CONFLICT, EBUSY, "sandbox %s is %s", req->id,
		               box->state == BOX_STARTING ? "starting" : "ending");
	w = xnew0(struct seal_wait);
	*w = (struct seal_wait){.broker = b, .tag = req->tag};
	memcpy(w->id, req->id, sizeof(w->id));
	r = b->base->build_image(b->hosts[0], req->id, base, &req->seal.spec, on_seal, w, &w->seal,
	                         &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	list_append(&b->seals, &w->link);
	broker_work_begin(b);
	return 1;
}

int seals_do_cancel(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	(void)reply;
	(void)fds;
	list_for_each (&b->seals, struct seal_wait, w, link) {
		if (w->tag != req->seal_tag)
			continue;
		b->base->cancel_image_build(w->seal);
		break;
	}
	return 0;
}

struct image_list {
	struct broker *broker;
	uint64_t tag;
};

static void list_image(const struct image_info *info, void *arg)
{
	const struct image_list *list = arg;
	struct msg_reply row;

	box_reply_init(&row, MSG_IMAGES, list->tag, "");
	row.image = *info;
	wire_reply(list->broker->wire, &row, NULL);
}

int seals_do_images(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct image_list list = {b, req->tag};

	(void)reply;
	(void)fds;
	if (b->base->each_image)
		b->base->each_image(b->hosts[0], list_image, &list);
	return 0;
}

int seals_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	(void)fds;
	return b->base->remove_image ? b->base->remove_image(b->hosts[0], &req->image, &reply->err)
	                             : 0;
}

int seals_do_kernel(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	(void)fds;
	if (!b->base->set_kernel)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s has no images",
		               b->base->name);
	return b->base->set_kernel(b->hosts[0], &req->image, &reply->err);
}

void seals_free(struct broker *b)
{
	list_for_each (&b->seals, struct seal_wait, w, link) {
		list_remove(&w->link);
		free(w);
	}
}
