// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's figures on demand. Of one that runs a fresh reading is taken, which is also its
 * meter's; of one that does not, what is written.
 */
#include "base/clock.h"
#include "sandbox/account.h"
#include "tenant/price.h"

struct query {
	struct fleet *fleet;
	char id[ID_SIZE]; /* the sandbox may be forgotten meanwhile */
	sandbox_usage_fn fn;
	void *arg;
	struct sandbox_figures figures;
};

static int add_day(const struct usage_row *row, void *arg)
{
	usage_add(arg, &row->usage);
	return 0;
}

static int read_total(struct sandbox *s, struct usage *ret, struct err *err)
{
	struct meters *meters = s->fleet->config.meters;

	*ret = (struct usage){0};
	if (s->meter)
		*ret = *meter_total(s->meter);
	else if (meters)
		return store_usage_of_sandbox(meters_store(meters), s->project_id, s->id, add_day,
		                              ret, err);
	return 0;
}

static void answer(struct query *q, struct sandbox *s, const struct err *err)
{
	q->figures.at_us = clock_wall_us();
	q->fn(s, err ? NULL : &q->figures, err, q->arg);
	free(q);
}

static void answer_now(struct loop *loop, void *arg)
{
	struct query *q = arg;

	(void)loop;
	answer(q, fleet_find_id(q->fleet, q->id), NULL);
}

static void on_usage(const struct msg_reply *reply, int fd, void *arg)
{
	struct query *q = arg;
	struct sandbox *s = fleet_find_id(q->fleet, q->id);
	struct err err = reply->err;

	if (fd >= 0)
		(void)close(fd);
	if (err.code == ERR_NONE && s && s->meter && s->link) {
		meter_read(s->meter, &reply->usage);
		q->figures.is_live = true;
		q->figures.now = reply->usage;
	}
	if (err.code == ERR_GONE || err.code == ERR_NOT_FOUND) /* it ends at this moment */
		err.code = ERR_NONE;
	if (err.code == ERR_NONE && s)
		err.code = read_total(s, &q->figures.total, &err) < 0 ? err.code : ERR_NONE;
	answer(q, s, err.code == ERR_NONE ? NULL : &err);
}

int sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *arg, struct err *err)
{
	struct msg_request req = {.op = MSG_USAGE};
	struct query *q = xnew0(struct query);
	int r;

	*q = (struct query){.fleet = s->fleet, .fn = fn, .arg = arg};
	memcpy(q->id, s->id, sizeof(q->id));
	memcpy(req.id, s->id, sizeof(req.id));
	if (s->link) {
		r = host_ask(s->fleet->host, &req, on_usage, q, NULL, err);
	} else {
		r = read_total(s, &q->figures.total, err);
		if (r == 0)
			loop_defer(s->fleet->config.loop, answer_now, q);
	}
	if (r < 0)
		free(q);
	return r;
}
