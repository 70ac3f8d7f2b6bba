// SPDX-License-Identifier: Apache-2.0
/*
 * Images that go to other nodes of the cluster, and come from them: files go out, to be read or to
 * be filled, and what was filled is checked before it has a name
 * (engine/template/image_exchange.h).
 */
#include "broker/broker_private.h"

struct take {
	struct list link; /* in the broker's takes */
	struct broker *broker;
	uint64_t tag;
};

static int lacks(const struct broker *b, struct err *err)
{
	if (b->base->take_image)
		return 0;
	return err_set(err, ERR_UNSUPPORTED, 0, "engine %s has no templates", b->base->name);
}

int exchange_do_share(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	int r = lacks(b, &reply->err);

	return r < 0 ? r
	             : b->base->share_image(b->hosts[0], &req->claim, fds, &reply->shared,
	                                    &reply->err);
}

int exchange_do_fetch(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	int r = lacks(b, &reply->err);

	return r < 0 ? r : b->base->fetch_image(b->hosts[0], &req->claim, fds, &reply->err);
}

int exchange_do_key(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	(void)req;
	(void)fds;
	if (b->base->gateway_key)
		return b->base->gateway_key(b->hosts[0], reply->gateway_key, &reply->err);
	return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s keeps no key of a cluster",
	               b->base->name);
}

static void on_taken(const struct image_build_result *result, const struct err *err, void *arg)
{
	struct take *t = arg;
	struct broker *b = t->broker;
	struct msg_reply reply;

	box_reply_init(&reply, MSG_IMAGE_TAKE, t->tag, "");
	if (err)
		reply.err = *err;
	else
		reply.shared =
			(struct image_shared){.bytes = result->bytes, .bases = result->bases};
	list_remove(&t->link);
	free(t);
	wire_reply(b->wire, &reply, NULL);
	broker_work_end(b);
}

int exchange_do_take(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	struct take *t;
	int r = lacks(b, &reply->err);

	(void)fds;
	if (r < 0)
		return r;
	t = xnew0(struct take);
	*t = (struct take){.broker = b, .tag = req->tag};
	list_init(&t->link);
	r = b->base->take_image(b->hosts[0], &req->claim, on_taken, t, &reply->shared, &reply->err);
	if (r != 1) {
		free(t);
		return r;
	}
	list_append(&b->takes, &t->link);
	broker_work_begin(b);
	return 1;
}

int exchange_do_drop(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	(void)reply;
	(void)fds;
	if (b->base->drop_image)
		b->base->drop_image(b->hosts[0], &req->claim.image);
	return 0;
}

void exchange_free(struct broker *b)
{
	list_for_each (&b->takes, struct take, t, link) {
		list_remove(&t->link);
		free(t);
	}
}
