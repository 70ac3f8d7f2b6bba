// SPDX-License-Identifier: Apache-2.0
/*
 * A look goes through the projects in turns and tries the first create of each. A project whose
 * create still has no room is set aside until the next look, so that it delays nobody else. A look
 * makes a few creates and then lets the loop go on.
 *
 * There is a look when a sandbox has ended, when somebody joins, and once a beat: quotas are
 * raised, and creates per minute become free, without anybody telling.
 */
#include "tenant/create_queue.h"

#include "base/fair_room.h"
#include "tenant/share.h"

#include <stdio.h>
#include <string.h>

#define BEAT_US       UINT64_C(200000)
#define MADE_MAX      8  /* in one look */
#define FULL_KEYS_MAX 16 /* in one look at a project */

#define REQUEST_ID_SIZE 65

struct create_waiter {
	struct list link; /* in its share's items */
	struct create_queue *queue;
	struct share *share;
	char key_id[ID_SIZE], batch_id[ID_SIZE];
	char request_id[REQUEST_ID_SIZE];
	uint64_t since_us, until_us;
	struct err why; /* it was refused last */
	struct loop_timer *deadline;
	const struct create_waiter_ops *ops;
	void *arg;
};

struct create_queue {
	struct create_queue_config config;
	struct fair_queue turns;
	struct share alone; /* of all, where there are no shares */
	struct fair_room room;
	struct loop_timer *timer;
	bool is_due, is_serving, is_closed;
	struct create_queue_figures figures;
};

static struct share *share_of(const struct create_queue *q, const char *project_id)
{
	struct share *share = shares_get(q->config.shares, project_id);

	return share ? share : (struct share *)unconst(&q->alone);
}

/* Its memory stays until waiter_free(). */
static void waiter_remove(struct create_waiter *w)
{
	struct create_queue *q = w->queue;

	list_remove(&w->link);
	w->share->n_waiting--;
	q->figures.waiting--;
	fair_room_give(&q->room, w->share->project_id, 1);
}

static void waiter_free(struct create_waiter *w)
{
	loop_timer_free(w->deadline);
	free(w);
}

bool create_queue_helps(const struct err *err)
{
	switch (err->code) {
	case ERR_CAPACITY:
	case ERR_HOST_DISK_FULL:
	case ERR_LIMIT:
		return true;
	case ERR_QUOTA:
		return !err->quota.is_final;
	default:
		return false;
	}
}

bool create_queue_has_before(const struct create_queue *q, const char *project_id)
{
	return !q->is_serving && share_of(q, project_id)->n_waiting > 0;
}

size_t create_waiter_position(const struct create_waiter *w)
{
	size_t n = 1;

	list_for_each (&w->share->creates.items, const struct create_waiter, other, link) {
		if (other == w)
			break;
		n++;
	}
	return n;
}

struct full_keys { /* keys whose own quota is used up */
	const char *keys[FULL_KEYS_MAX];
	size_t n;
};

static bool is_full(const struct full_keys *full, const char *key_id)
{
	for (size_t i = 0; i < full->n; i++)
		if (strcmp(full->keys[i], key_id) == 0)
			return true;
	return false;
}

static void give_up(struct create_waiter *w, const struct err *err)
{
	waiter_remove(w);
	w->ops->give_up(err, w->arg);
	waiter_free(w);
}

/* Whether one was made. */
static bool serve(struct create_queue *q, struct share *share)
{
	struct full_keys full = {.n = 0};

	list_for_each (&share->creates.items, struct create_waiter, w, link) {
		struct err err;

		if (is_full(&full, w->key_id))
			continue;
		if (w->ops->make(w->arg, &err) >= 0) {
			waiter_remove(w);
			waiter_free(w);
			q->figures.made++;
			return true;
		}
		if (!create_queue_helps(&err)) {
			give_up(w, &err);
			continue;
		}
		w->why = err;
		if (!err.quota.is_of_key || full.n == FULL_KEYS_MAX)
			return false;
		full.keys[full.n++] = w->key_id;
	}
	return false;
}

static bool has_room(const struct create_queue *q)
{
	return !q->config.has_room || q->config.has_room(q->config.arg);
}

static void look(struct create_queue *q)
{
	struct list aside = LIST_INIT(aside);
	struct fair_share *turn = NULL;
	struct list *item;
	size_t made = 0;

	q->is_due = false;
	q->is_serving = true;
	while (made < MADE_MAX && has_room(q) && (item = fair_next(&q->turns, &turn))) {
		fair_put_back(turn, item);
		if (!serve(q, container_of(turn, struct share, creates))) {
			fair_set_aside(turn, &aside);
			continue;
		}
		fair_charge(&q->turns, turn, 1);
		made++;
	}
	fair_bring_back(&q->turns, &aside);
	q->is_serving = false;
	if (q->figures.waiting > 0) {
		q->is_due = made == MADE_MAX;
		loop_timer_set_in(q->timer, q->is_due ? 0 : BEAT_US);
	}
}

static void on_timer(struct loop *loop, void *arg)
{
	(void)loop;
	look(arg);
}

void create_queue_look(struct create_queue *q)
{
	if (!q || q->figures.waiting == 0 || q->is_due)
		return;
	q->is_due = true;
	loop_timer_set_in(q->timer, 0);
}

void create_queue_settle(struct create_queue *q)
{
	if (q->is_due && !q->is_serving)
		look(q);
}

/* One that was never tried itself was kept by the one before it. */
static const struct err *reason(const struct create_waiter *w)
{
	const struct create_waiter *first =
		list_first(&w->share->creates.items, const struct create_waiter, link);

	return w->why.code == ERR_LIMIT ? &first->why : &w->why;
}

static void on_deadline(struct loop *loop, void *arg)
{
	struct create_waiter *w = arg;
	struct err err = *reason(w);

	(void)loop;
	err.quota.queue_position = (uint16_t)create_waiter_position(w);
	err.quota.queue_waiting = (uint16_t)w->share->n_waiting;
	w->queue->figures.expired++;
	give_up(w, &err);
}

void create_queue_each(const struct create_queue *q, const char *project_id,
                       void (*fn)(const struct create_waiting *w, void *arg), void *arg)
{
	const struct share *share = share_of(q, project_id);
	size_t position = 1;

	list_for_each (&share->creates.items, const struct create_waiter, w, link) {
		const struct create_waiting told = {.request_id = w->request_id,
		                                    .batch_id = w->batch_id,
		                                    .position = position,
		                                    .since_us = w->since_us,
		                                    .until_us = w->until_us,
		                                    .why = reason(w)};

		fn(&told, arg);
		position++;
	}
}

static int refuse(const struct share *share, struct err *err)
{
	(void)err_set(err, ERR_LIMIT, 0,
	              "%zu creates of the project wait for room already, and no more may",
	              share->n_waiting);
	return err_hint(err, "try again later, or wait with fewer at once");
}

static int refuse_stopping(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, 0, "the daemon is stopping");
}

void create_queue_close(struct create_queue *q)
{
	struct fair_share *turn;
	struct list *item;
	struct err err;

	q->is_closed = true;
	(void)refuse_stopping(&err);
	while ((item = fair_next(&q->turns, &turn)))
		give_up(container_of(item, struct create_waiter, link), &err);
}

int create_queue_join(struct create_queue *q, const struct create_wait *wait,
                      const struct create_waiter_ops *ops, void *arg, struct create_waiter **ret,
                      struct err *err)
{
	struct share *share = share_of(q, wait->project_id);
	struct create_waiter *w;

	if (q->is_closed)
		return refuse_stopping(err);
	if (share->n_waiting >= CREATE_WAITERS_MAX ||
	    !fair_room_take(&q->room, share->project_id, 1))
		return refuse(share, err);
	w = xnew0(struct create_waiter);
	*w = (struct create_waiter){
		.queue = q, .share = share, .why = *wait->why, .ops = ops, .arg = arg};
	(void)snprintf(w->key_id, sizeof(w->key_id), "%s", wait->key_id);
	(void)snprintf(w->request_id, sizeof(w->request_id), "%s",
	               wait->request_id ? wait->request_id : "");
	(void)snprintf(w->batch_id, sizeof(w->batch_id), "%s",
	               wait->batch_id ? wait->batch_id : "");
	w->since_us = loop_now_us(q->config.loop);
	w->until_us = wait->until_us;
	w->deadline = loop_timer_new(q->config.loop, on_deadline, w);
	loop_timer_set(w->deadline, wait->until_us);
	fair_push(&q->turns, &share->creates, &w->link);
	share->n_waiting++;
	q->figures.waiting++;
	q->figures.joined++;
	create_queue_look(q);
	*ret = w;
	return 0;
}

void create_queue_leave(struct create_waiter *w)
{
	if (!w)
		return;
	waiter_remove(w);
	waiter_free(w);
}

struct create_queue_figures create_queue_figures(const struct create_queue *q)
{
	return q->figures;
}

size_t create_queue_waiting(const struct create_queue *q, const char *project_id)
{
	return share_of(q, project_id)->n_waiting;
}

struct create_queue *create_queue_new(const struct create_queue_config *config)
{
	struct create_queue *q = xnew0(struct create_queue);

	q->config = *config;
	q->room.most = CREATE_WAITERS_ALL;
	q->room.always = CREATE_WAITERS_ALWAYS;
	fair_queue_init(&q->turns, 1);
	fair_share_init(&q->alone.creates, FAIR_WEIGHT);
	q->timer = loop_timer_new(config->loop, on_timer, q);
	return q;
}

void create_queue_free(struct create_queue *q)
{
	struct fair_share *turn;
	struct list *item;

	if (!q)
		return;
	while ((item = fair_next(&q->turns, &turn))) {
		struct create_waiter *w = container_of(item, struct create_waiter, link);

		waiter_remove(w);
		waiter_free(w);
	}
	fair_queue_done(&q->turns);
	fair_room_done(&q->room);
	loop_timer_free(q->timer);
	free(q);
}
