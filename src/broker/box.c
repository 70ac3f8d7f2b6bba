// SPDX-License-Identifier: Apache-2.0
/*
 * A box is the broker's side of a sandbox, from the accepted create until the engine has removed
 * the last host object:
 *
 *	starting --> running --> killing --> (freed)
 *	    +---------------------^
 *
 * A box may use its guest while it is running. kill() gives the guest back to the engine; a failed
 * start has given it back already. From then on box->guest is NULL, and the engine's last callback,
 * which comes once, ends the box.
 *
 * A delete also removes a kept layer (engine.h); a stop, or a guest that ends by itself, leaves it.
 * A delete that finds no guest but a kept layer makes a box in the state killing.
 *
 * A delete that comes while a box is starting waits for the start's end: an engine is never asked
 * to undo what it is in the middle of doing. If a guest's first process dies, the box kills the
 * rest at once, without a request. So a gateway that forgets a guest cannot keep its uid range,
 * cgroups and disk in use.
 */
#include "base/log.h"
#include "broker/broker_private.h"

#include <assert.h>
#include <string.h>

/* A list is enough: it is walked once per request, and a request costs far more than the walk. */
struct box *box_find(struct broker *b, const char *id)
{
	for (struct list *l = b->boxes.next; l != &b->boxes; l = l->next) {
		struct box *box = list_entry(l, struct box, link);

		if (strcmp(box->spec.id, id) == 0)
			return box;
	}
	return NULL;
}

struct box *box_new(struct broker *b)
{
	struct box *box = xnew0(struct box);

	box->broker = b;
	box->engine = b->base;
	box->host = b->hosts[0];
	list_init(&box->waiters);
	list_append(&b->boxes, &box->link);
	b->n_boxes++;
	return box;
}

void box_free(struct box *box)
{
	freeze_free(box);
	list_remove(&box->link);
	box->broker->n_boxes--;
	free(box);
}

/* Padding is zeroed too, so that no bytes of root's stack go to the gateway. */
void box_reply_init(struct msg_reply *reply, uint32_t op, uint64_t tag, const char *id)
{
	memset(reply, 0, sizeof(*reply));
	reply->magic = MSG_MAGIC;
	reply->op = op;
	reply->tag = tag;
	(void)snprintf(reply->id, sizeof(reply->id), "%s", id);
}

/* Called when everything is removed, except perhaps a kept layer. */
void box_end(void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct waiter *waiter;
	struct msg_reply reply;

	log_info("sandbox.removed", "id=%s slot=%u", box->spec.id, box->spec.slot);
	while ((waiter = list_first(&box->waiters, struct waiter, link))) {
		box_reply_init(&reply, waiter->op, waiter->tag, box->spec.id);
		reply.usage = box->final;
		list_remove(&waiter->link);
		free(waiter);
		wire_reply(b->wire, &reply, NULL);
		broker_work_end(b);
	}
	if (box->has_slot)
		slots_give(&b->slots, box->spec.slot);
	box_free(box);
}

static void on_guest_gone(void *arg)
{
	struct box *box = arg;

	assert(box->state != BOX_RUNNING && !box->guest);
	if (box->is_deleted &&
	    box->broker->base->discard(box->broker->hosts[0], box->spec.id, box_end, box) == 1)
		return;
	box_end(box);
}

void box_on_final(const char *id, const struct guest_usage *usage, void *arg)
{
	struct broker *b = arg;
	struct box *box = box_find(b, id);

	if (box)
		finals_merge(&box->final, usage);
	finals_put(&b->finals, id, usage);
}

void box_kill(struct box *box)
{
	assert(box->state == BOX_RUNNING);
	freeze_cancel(box);
	box->state = BOX_KILLING;
	box->engine->kill(take_ptr(box->guest), on_guest_gone, box); /* the engine's from here on */
}

void box_on_guest_ended(struct guest *g, int wait_status, void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct msg_reply reply;

	if (box->state != BOX_RUNNING)
		return;
	log_info("sandbox.ended", "id=%s wait_status=0x%x", box->spec.id, wait_status);
	box_reply_init(&reply, MSG_ENDED, 0, box->spec.id);
	reply.ended.wait_status = wait_status;
	if (box->engine->usage(g, &reply.ended.usage, NULL) < 0)
		memset(&reply.ended.usage, 0, sizeof(reply.ended.usage));
	box->engine->shortage(g, &reply.ended.shortage);
	wire_reply(b->wire, &reply, NULL);
	box_kill(box);
}

/* Called once, when a start has ended. The box goes on, is freed, or is killed for a waiting
 * delete. */
void box_on_guest_started(struct guest *g, const struct err *err, void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX] = {-1, -1, -1, -1};

	box_reply_init(&reply, MSG_CREATE, box->create_tag, box->spec.id);
	if (!err) {
		box->state = BOX_RUNNING;
		box->guest = g;
		reply.isolation = box->engine->isolation(box->host, g);
		if (box->engine->connect(box->guest, fds, &reply.err) == 0)
			reply.err = (struct err){0};
	} else {
		box->state = BOX_KILLING;
		box->guest = NULL;
		reply.err = *err;
	}
	if (reply.err.code == ERR_NONE)
		log_info("sandbox.started", "id=%s slot=%u", box->spec.id, box->spec.slot);
	else
		log_warn("sandbox.failed", "id=%s error='%s'", box->spec.id, reply.err.message);
	wire_reply(b->wire, &reply, fds);
	broker_work_end(b);
	if (err)
		on_guest_gone(box);
	else if (reply.err.code != ERR_NONE || !list_empty(&box->waiters))
		box_kill(box);
}

void box_wait(struct box *box, const struct msg_request *req)
{
	struct waiter *waiter = xnew0(struct waiter);

	waiter->op = req->op;
	waiter->tag = req->tag;
	list_append(&box->waiters, &waiter->link);
	broker_work_begin(box->broker);
}
