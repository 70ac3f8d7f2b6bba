// SPDX-License-Identifier: Apache-2.0
/*
 * Doors, and connections to ports inside. If the guest needs something for its door (a vm's network
 * card), it gets it after the door is opened and loses it before the door is closed, and the reply
 * waits for that. If a guest does not release its card, its door is closed all the same.
 */
#include "base/log.h"
#include "broker/broker_private.h"

#include <string.h>

/* NULL with an error if there is none, or if its engine has no doors. */
static struct box *find_with_door(struct broker *b, const char *id, struct err *err)
{
	struct box *box = requests_find_running(b, id, err);

	if (!box || box->engine->open_door)
		return box;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "engine %s has no network", box->engine->name);
	return NULL;
}

struct door_wait {
	struct broker *broker;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX];
};

static void answer(struct door_wait *w)
{
	wire_reply(w->broker->wire, &w->reply, w->fds);
	broker_work_end(w->broker);
	free(w);
}

static struct door_wait *wait_new(struct broker *b, const struct msg_reply *reply, const int *fds)
{
	struct door_wait *w = xnew0(struct door_wait);

	w->broker = b;
	w->reply = *reply;
	memcpy(w->fds, fds, sizeof(w->fds));
	broker_work_begin(b);
	return w;
}

static void on_plugged(const struct err *err, void *arg)
{
	struct door_wait *w = arg;

	if (err) {
		w->reply.err = *err;
		w->reply.door.sockets = 0;
		for (size_t i = 0; i < ARRAY_SIZE(w->fds); i++)
			if (w->fds[i] >= 0)
				(void)close(take_fd(&w->fds[i]));
	}
	answer(w);
}

int doors_do_open(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds)
{
	struct box *box = find_with_door(b, req->id, &reply->err);
	struct err failure = {0};
	struct door_wait *w;
	int r = box ? box->engine->open_door(box->guest, fds, &reply->err) : -ESRCH;

	for (size_t i = 0; r == 0 && i < DOOR_SOCKETS; i++)
		reply->door.sockets |= fds[i] >= 0 ? BIT(i) : 0;
	if (r < 0 || !box->engine->plug)
		return r;
	reply->err = (struct err){0};
	w = wait_new(b, reply, fds);
	if (box->engine->plug(box->guest, true, on_plugged, w, &failure) < 0)
		on_plugged(&failure, w);
	return 1;
}

static void on_unplugged(const struct err *err, void *arg)
{
	struct door_wait *w = arg;
	struct box *box = requests_find_running(w->broker, w->reply.id, &w->reply.err);

	if (err)
		log_debug("broker.card_held", "id=%s error='%s'", w->reply.id, err->message);
	if (box && box->engine->close_door(box->guest, &w->reply.err) == 0)
		w->reply.err = (struct err){0};
	answer(w);
}

int doors_do_close(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct box *box = find_with_door(b, req->id, &reply->err);
	struct err failure = {0};
	struct door_wait *w;

	if (!box)
		return -ESRCH;
	if (!box->engine->plug)
		return box->engine->close_door(box->guest, &reply->err);
	w = wait_new(b, reply, fds);
	if (box->engine->plug(box->guest, false, on_unplugged, w, &failure) < 0)
		on_unplugged(&failure, w);
	return 1;
}

int doors_do_dial(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);

	if (!box)
		return -ESRCH;
	if (!box->engine->dial)
		return err_set(&reply->err, ERR_UNSUPPORTED, 0, "engine %s: its agent dials",
		               box->engine->name);
	return box->engine->dial(box->guest, (int)req->dial.family, (uint16_t)req->dial.port, fds,
	                         &reply->err);
}
