// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's figures on demand. For a running sandbox a fresh reading is taken, which its meter
 * uses too; for any other, the stored figures are used. Those are kept longer than the sandbox's
 * row (usage_kept_ms), so that a bill can be checked after its sandbox is forgotten.
 */
#include "base/clock.h"
#include "sandbox/model/registry.h"
#include "sandbox/usage/account.h"
#include "sandbox/usage/samples.h"
#include "tenant/price.h"

struct query {
	struct fleet *fleet;
	char project_id[ID_SIZE]; /* the sandbox may be forgotten meanwhile */
	sandbox_usage_fn fn;
	void *arg;
	struct sandbox_figures figures;
};

struct sum {
	struct usage usage;
	bool has_days;
};

static int add_day(const struct usage_row *row, void *arg)
{
	struct sum *sum = arg;

	usage_add(&sum->usage, &row->usage);
	sum->has_days = true;
	return 0;
}

/* The figures of a closed meter may still wait to be written. */
static int read_written(struct fleet *fleet, const char *project_id, const char *id,
                        struct sum *ret, struct err *err)
{
	struct meters *meters = fleet->config.meters;
	int r;

	*ret = (struct sum){0};
	if (!meters)
		return 0;
	r = meters_write(meters, /* is_synced= */ false, err);
	if (r < 0)
		return r;
	return store_usage_of_sandbox(meters_store(meters), project_id, id, add_day, ret, err);
}

static int read_total(struct query *q, const struct sandbox *s, struct err *err)
{
	struct sum sum;
	int r;

	if (s && s->account->meter) { /* figures are written before they are shown, so they never
		                         decrease */
		(void)!meters_write(q->fleet->config.meters, /* is_synced= */ false, NULL);
		q->figures.total = *meter_total(s->account->meter);
		return 0;
	}
	r = read_written(q->fleet, q->project_id, q->figures.id, &sum, err);
	q->figures.total = sum.usage;
	return r;
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
	answer(q, fleet_find_id(q->fleet, q->figures.id), NULL);
}

static void on_usage(const struct msg_reply *reply, void *arg)
{
	struct query *q = arg;
	struct sandbox *s = fleet_find_id(q->fleet, q->figures.id);
	struct err err = reply->err;

	if (err.code == ERR_NONE && s && s->account->meter && sandbox_has_guest(s)) {
		account_on_reading(s, &reply->usage);
		q->figures.is_live = true;
		q->figures.now = reply->usage;
	}
	if (err.code == ERR_GONE || err.code == ERR_NOT_FOUND) /* it ends at this moment */
		err.code = ERR_NONE;
	if (err.code == ERR_NONE)
		err.code = read_total(q, s, &err) < 0 ? err.code : ERR_NONE;
	answer(q, s, err.code == ERR_NONE ? NULL : &err);
}

int sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *arg, struct err *err)
{
	struct msg_request req = {.op = MSG_USAGE};
	struct query *q = xnew0(struct query);
	int r;

	*q = (struct query){.fleet = s->fleet, .fn = fn, .arg = arg};
	memcpy(q->project_id, s->project_id, sizeof(q->project_id));
	memcpy(q->figures.id, s->id, sizeof(q->figures.id));
	memcpy(req.id, s->id, sizeof(req.id));
	if (sandbox_has_guest(s)) {
		r = broker_client_ask(s->fleet->broker, &req, on_usage, q, NULL, err);
	} else {
		r = read_total(q, s, err);
		if (r == 0)
			loop_defer(s->fleet->config.loop, answer_now, q);
	}
	if (r < 0)
		free(q);
	return r;
}

void sandbox_latest(const struct sandbox *s, struct sandbox_figures *ret)
{
	*ret = (struct sandbox_figures){.is_live = s->account->seen_us != 0 && sandbox_has_guest(s),
	                                .now = s->account->seen,
	                                .at_us = s->account->seen_us};
	memcpy(ret->id, s->id, sizeof(ret->id));
	if (s->account->meter)
		ret->total = *meter_total(s->account->meter);
}

size_t sandbox_n_samples(const struct sandbox *s)
{
	return samples_count(s->account->samples);
}

const struct sandbox_sample *sandbox_sample_at(const struct sandbox *s, size_t i)
{
	return samples_at(s->account->samples, i);
}

int sandbox_forgotten_usage(struct fleet *fleet, const char *project_id, const char *id,
                            struct sandbox_figures *ret, struct err *err)
{
	struct sum sum;
	int r = read_written(fleet, project_id, id, &sum, err);

	if (r < 0 || !sum.has_days)
		return r;
	*ret = (struct sandbox_figures){.total = sum.usage, .at_us = clock_wall_us()};
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	return 1;
}
