// SPDX-License-Identifier: Apache-2.0
#include "sandbox/model/durable.h"

#include "base/log.h"
#include "loop/work.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_private.h"

#include <string.h>
#include <unistd.h>

struct create {
	struct list link;
	char id[ID_SIZE]; /* it may be deleted meanwhile */
};

struct durable {
	struct fleet *fleet;
	int log_fd;        /* of the store; -1: not open yet */
	uint64_t done;     /* all kept changes up to this one are on disk */
	uint64_t asked;    /* the last that somebody waits for */
	uint64_t target;   /* of the round under way */
	unsigned parts;    /* of it that are not done */
	bool is_due;       /* a round begins at the end of this turn */
	bool has_layers;   /* there are new ones */
	bool syncs_layers; /* the round does */
	struct list fresh; /* struct create, for the next round */
	struct list round; /* and of the one under way */
	struct err err;    /* the round's */
};

static void begin_round(struct loop *loop, void *arg);

void durable_open(struct fleet *fleet)
{
	struct durable *d = xnew0(struct durable);

	*d = (struct durable){.fleet = fleet, .log_fd = -1};
	list_init(&d->fresh);
	list_init(&d->round);
	(void)!store_open_log(fleet->config.store, &d->log_fd); /* else the first round tells */
	fleet->durable = d;
}

static void forget_new(struct list *list)
{
	list_for_each (list, struct create, c, link) {
		list_remove(&c->link);
		free(c);
	}
}

static void free_durable(struct loop *loop, void *arg)
{
	struct durable *d = arg;

	(void)loop;
	forget_new(&d->fresh);
	forget_new(&d->round);
	free(d);
}

void durable_close(struct fleet *fleet)
{
	struct durable *d = take_ptr(fleet->durable);

	if (!d)
		return;
	if (d->log_fd >= 0)
		(void)close(take_fd(&d->log_fd));
	d->fleet = NULL;
	loop_defer(fleet->config.loop, free_durable, d); /* behind a round of this turn */
}

void durable_on_layer(struct fleet *fleet)
{
	fleet->durable->has_layers = true;
}

void durable_on_create(struct sandbox *s)
{
	struct create *c = xnew0(struct create);

	memcpy(c->id, s->id, sizeof(c->id));
	list_append(&s->fleet->durable->fresh, &c->link);
	durable_on_layer(s->fleet);
}

static void ask_for_round(struct durable *d)
{
	if (d->is_due || d->parts > 0)
		return;
	d->is_due = true;
	loop_defer(d->fleet->config.loop, begin_round, d);
}

uint64_t durable_ask(struct fleet *fleet)
{
	struct durable *d = fleet->durable;
	uint64_t kept = store_durable(fleet->config.store);

	if (kept == d->done || !fleet->config.work)
		return 0;
	d->asked = kept;
	ask_for_round(d);
	return kept;
}

static void undo_new(struct durable *d)
{
	list_for_each (&d->round, struct create, c, link) {
		struct sandbox *s = fleet_find_id(d->fleet, c->id);

		if (s)
			d->fleet->lifecycle->undo_create(s, &d->err);
	}
}

static void end_round(struct durable *d)
{
	const struct fleet_config *config = &d->fleet->config;
	bool has_failed = d->err.code != ERR_NONE;

	if (has_failed) {
		log_error("store.not_synced", "error='%s'", d->err.message);
		d->has_layers |= d->syncs_layers;
		undo_new(d);
	} else {
		d->done = d->target;
	}
	forget_new(&d->round);
	if (d->asked > d->target)
		ask_for_round(d);
	config->on_durable(d->target, has_failed ? &d->err : NULL, config->on_durable_arg);
}

static void end_part(struct durable *d)
{
	if (--d->parts == 0)
		end_round(d);
}

/* On the work thread. */
static int sync_log(void *arg)
{
	const struct durable *d = arg;

	return fdatasync(d->log_fd) < 0 ? -errno : 0;
}

static void note_result(struct durable *d, int result)
{
	if (result < 0)
		(void)err_set(
			&d->err, result == -ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, -result,
			"the change could not be written to the host's disk; a new sandbox is "
			"deleted again, all else stays done");
}

static void on_log_synced(int result, void *arg)
{
	note_result(arg, result);
	end_part(arg);
}

static void on_layers_synced(const struct msg_reply *reply, void *arg)
{
	struct durable *d = arg;

	if (reply->err.code != ERR_NONE)
		d->err = reply->err;
	end_part(d);
}

static void begin_round(struct loop *loop, void *arg)
{
	struct durable *d = arg;
	struct msg_request req = {.op = MSG_SYNC};
	int r = 0;

	(void)loop;
	if (!d->fleet) /* closed in this turn */
		return;
	d->is_due = false;
	d->target = store_durable(d->fleet->config.store);
	d->err = (struct err){0};
	d->syncs_layers = d->has_layers;
	d->has_layers = false;
	list_for_each (&d->fresh, struct create, c, link) {
		list_remove(&c->link);
		list_append(&d->round, &c->link);
	}
	d->parts = 1; /* this function's own */
	if (d->log_fd < 0)
		r = store_open_log(d->fleet->config.store, &d->log_fd);
	if (r == 0) {
		d->parts++;
		work_do(d->fleet->config.work, sync_log, on_log_synced, d);
	}
	if (d->syncs_layers &&
	    broker_client_ask(d->fleet->broker, &req, on_layers_synced, d, NULL, &d->err) == 0)
		d->parts++;
	note_result(d, r);
	end_part(d);
}
