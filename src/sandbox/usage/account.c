// SPDX-License-Identifier: Apache-2.0
/*
 * Every running sandbox is read once per period. Several times per period the daemon looks which of
 * them are due, so that the broker is asked for a few at a time and never for a thousand at once.
 * Readings of one look are written together, and synced once per period.
 *
 * The end of a run needs the counters after its processes died: the broker's reply to the delete
 * has them. If a sandbox is found dead at the start, the broker is asked for the counters that it
 * kept (broker/finals.h), and time is charged only up to the last reading.
 *
 * Budgets are checked as often. If a budget does not cover the time until the next look, its
 * sandboxes are ended, with the figures as the message.
 *
 * Execs are written in the turn in which they began, together with their rows. Calls of code are
 * written later; until then the crash counters have them (model/crash_counters.h).
 */
#include "sandbox/usage/account.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/usage/history_feed.h"
#include "sandbox/usage/samples.h"
#include "tenant/day.h"

#define LOOKS_A_PERIOD 8
#define LOOK_US_MIN    (50 * UINT64_C(1000))
#define FRESH_US       (2 * SECOND_US) /* a reading that is read again on request */
#define FRESHEN_MAX    64              /* at once; the next request goes on */
#define NOTHING_MORE   1               /* as charge_until_us: a moment before any reading */

static struct meters *meters_of(const struct sandbox *s)
{
	return s->fleet->config.meters;
}

static struct quota_owner owner_of(const struct sandbox *s)
{
	return (struct quota_owner){.project_id = s->project_id, .key_id = s->key_id};
}

static struct quota_held held_by(const struct guest_limits *limits)
{
	return (struct quota_held){.of = {
					   [QUOTA_SANDBOXES] = 1,
					   [QUOTA_CPU_MILLI] = limits->cpu_milli,
					   [QUOTA_MEMORY_BYTES] = limits->memory_bytes,
					   [QUOTA_DISK_BYTES] = limits->disk_bytes,
				   }};
}

/* A sandbox that does not run holds only the disk of its files, if they are kept. */
static struct quota_held held_at_rest(const struct sandbox *s)
{
	struct quota_held held = {0};

	if (s->is_kept)
		held.of[QUOTA_DISK_BYTES] = s->limits.disk_bytes;
	return held;
}

int account_admit(struct fleet *fleet, const char *project_id, const char *key_id,
                  const struct guest_limits *limits, struct quota_held *ret, struct err *err)
{
	const struct quota_owner owner = {project_id, key_id ? key_id : ""};

	*ret = held_by(limits);
	if (!fleet->config.quota)
		return 0;
	return quota_admit(fleet->config.quota, &owner, ret, /* is_create= */ true, err);
}

int account_check_possible(struct fleet *fleet, const char *project_id, const char *key_id,
                           const struct guest_limits *limits, struct err *err)
{
	const struct quota_owner owner = {project_id, key_id ? key_id : ""};
	const struct quota_held held = held_by(limits);

	return fleet->config.quota ? quota_check_possible(fleet->config.quota, &owner, &held, err)
	                           : 0;
}

bool account_has_room(struct fleet *fleet, const char *project_id, const char *key_id,
                      const struct guest_limits *limits, struct quota_held *ahead)
{
	const struct quota_owner owner = {project_id, key_id};
	const struct quota_held one = held_by(limits);
	struct quota_held sum = *ahead;

	for (unsigned i = 0; i < QUOTA_HELD_COUNT; i++)
		sum.of[i] += one.of[i];
	if (fleet->config.quota && !quota_has_room(fleet->config.quota, &owner, &sum))
		return false;
	*ahead = sum;
	return true;
}

/* Gives back everything that it holds beyond keeps. */
static void give_back(struct sandbox *s, const struct quota_held *keeps)
{
	const struct quota_owner owner = owner_of(s);
	struct quota_held less;

	if (!s->fleet->config.quota)
		return;
	for (unsigned i = 0; i < QUOTA_HELD_COUNT; i++)
		less.of[i] = s->account->held.of[i] - MIN(s->account->held.of[i], keeps->of[i]);
	quota_give(s->fleet->config.quota, &owner, &less);
	s->account->held = *keeps;
	create_queue_look(s->fleet->creates);
}

static int admit_more(struct sandbox *s, const struct guest_limits *limits, bool is_create,
                      struct err *err)
{
	struct quota *quota = s->fleet->config.quota;
	const struct quota_owner owner = owner_of(s);
	struct quota_held more = held_by(limits);
	int r;

	for (unsigned i = 0; i < QUOTA_HELD_COUNT; i++)
		more.of[i] -= MIN(more.of[i], s->account->held.of[i]);
	r = quota ? quota_admit(quota, &owner, &more, is_create, err) : 0;
	if (r < 0)
		return r;
	for (unsigned i = 0; quota && i < QUOTA_HELD_COUNT; i++)
		s->account->held.of[i] += more.of[i];
	return 0;
}

int account_admit_limits(struct sandbox *s, const struct guest_limits *limits, struct err *err)
{
	int r = admit_more(s, limits, /* is_create= */ false, err);

	s->account->n_limits_due += r == 0;
	return r;
}

int account_admit_resume(struct sandbox *s, struct err *err)
{
	const struct quota_held keeps = held_by(&s->limits);
	int r = admit_more(s, &s->limits, /* is_create= */ true, err);

	if (r == 0) /* they may have become smaller while it was at rest */
		give_back(s, &keeps);
	return r;
}

static void keep_sample(struct sandbox *s)
{
	const uint64_t *of = meter_total(s->account->meter)->of;
	const struct sandbox_sample sample = {.at_us = s->account->seen_us,
	                                      .cpu_ns = of[USAGE_CPU_NS],
	                                      .memory_bytes = s->account->seen.memory_bytes,
	                                      .disk_bytes = s->account->seen.files_bytes,
	                                      .pids = s->account->seen.pids,
	                                      .network_in_bytes = of[USAGE_NETWORK_IN_BYTES],
	                                      .network_out_bytes = of[USAGE_NETWORK_OUT_BYTES]};

	samples_add(&s->account->samples, &sample, s->fleet->config.usage_period_ms * 1000 / 2);
}

void account_on_reading(struct sandbox *s, const struct guest_usage *now)
{
	struct guest_usage charged = *now;

	charged.disk_bytes += s->kept_bytes; /* what its execs said lies on the same disk */
	meter_read(s->account->meter, &charged);
	s->account->seen = *now;
	s->account->seen_us = clock_wall_us();
	keep_sample(s);
}

static void on_reading(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;

	s->account->reading = 0;
	if (reply->err.code == ERR_NONE && s->account->meter && sandbox_has_guest(s))
		account_on_reading(s, &reply->usage);
}

static void ask_reading(struct sandbox *s)
{
	struct msg_request req = {.op = MSG_USAGE};

	memcpy(req.id, s->id, sizeof(req.id));
	(void)!broker_client_ask(s->fleet->broker, &req, on_reading, s, &s->account->reading, NULL);
}

void fleet_freshen(struct fleet *fleet, const char *project_id)
{
	uint64_t period_us = fleet->config.usage_period_ms * 1000;
	uint64_t now = loop_now_us(fleet->config.loop);
	unsigned n = 0;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (strcmp(s->project_id, project_id) != 0 || !s->account->meter ||
		    s->account->reading || !sandbox_has_guest(s) ||
		    s->account->read_next_us > now + period_us - FRESH_US)
			continue;
		s->account->read_next_us = now + period_us;
		ask_reading(s);
		if (++n == FRESHEN_MAX)
			break;
	}
}

static void prune(struct fleet *fleet)
{
	uint64_t keep = fleet->config.usage_kept_ms / (DAY_US / 1000);
	int32_t today = day_of(clock_wall_us());
	struct err err;

	if ((uint64_t)today <= keep)
		return;
	if (store_usage_prune(meters_store(fleet->config.meters), today - (int32_t)keep, &err) < 0)
		log_error("usage.not_pruned", "error='%s'", err.message);
}

static void end_if_spent(struct sandbox *s)
{
	struct quota *quota = s->fleet->config.quota;
	const struct quota_owner owner = owner_of(s);
	struct err err;

	if (quota && sandbox_has_guest(s) && quota_is_spent(quota, &owner, &err))
		s->fleet->lifecycle->end(s, END_POLICY,
		                         json_pack("{s:s, s:s, s:s}", "what", err.quota.what,
		                                   "limit", err.quota.limit, "current",
		                                   err.quota.current),
		                         err.message);
}

static void on_turns(const struct msg_reply *reply, void *arg)
{
	struct fleet *fleet = arg;

	if (reply->err.code == ERR_NONE)
		fleet->broker_turns = reply->probe.turns;
}

static void look(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;
	uint64_t period_us = fleet->config.usage_period_ms * 1000;
	uint64_t now = loop_now_us(loop);
	bool is_synced = now - fleet->synced_us >= period_us;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		end_if_spent(s);
		owner_look(s);
		if (!s->account->meter || s->account->reading || s->account->read_next_us > now)
			continue;
		s->account->read_next_us = now + period_us;
		if (sandbox_has_guest(s))
			ask_reading(s);
		else
			meter_tick(s->account->meter);
	}
	if (is_synced) {
		(void)!broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_PROBE},
		                         on_turns, fleet, NULL, NULL);
		for (const struct stored_kind *k = fleet->stored; k->prefix; k++)
			k->tick(fleet);
	}
	(void)!meters_write(fleet->config.meters, is_synced,
	                    NULL); /* it logs; the next one tries */
	if (is_synced) {
		fleet->synced_us = now;
		prune(fleet);
	}
	loop_timer_set_in(fleet->look, MAX(period_us / LOOKS_A_PERIOD, LOOK_US_MIN));
}

void account_open(struct fleet *fleet)
{
	if (!fleet->config.meters)
		return;
	fleet->look = loop_timer_new(fleet->config.loop, look, fleet);
	fleet->synced_us = loop_now_us(fleet->config.loop);
	loop_timer_set_in(fleet->look, LOOK_US_MIN);
}

void account_close(struct fleet *fleet)
{
	loop_timer_free(take_ptr(fleet->look));
}

/* The steady time of this wall clock time; never later than now. */
static uint64_t steady_at(uint64_t wall_us)
{
	uint64_t wall_now = clock_wall_us(), now = clock_steady_us();
	uint64_t ago = wall_now > wall_us ? wall_now - wall_us : 0;

	return now > ago ? now - ago : NOTHING_MORE;
}

static void start(struct sandbox *s, uint64_t since_us)
{
	const struct meter_spec spec = {
		.sandbox_id = s->id,
		.project_id = s->project_id,
		.key_id = s->key_id,
		.memory_limit_bytes = s->limits.memory_bytes,
		.since_us = since_us,
		.base = s->account->base_usage,
	};
	uint64_t look_us;

	s->account->meter = meter_find(meters_of(s), s->id);
	if (s->account->meter)
		meter_resume(s->account->meter, s->limits.memory_bytes); /* if it was held */
	else
		s->account->meter = meter_start(meters_of(s), &spec);
	/* Spreads the readings of sandboxes that were adopted together. */
	look_us = s->fleet->config.usage_period_ms * 1000 / LOOKS_A_PERIOD;
	s->account->read_next_us = loop_now_us(s->fleet->config.loop) +
	                           look_us * (++s->fleet->n_meters % LOOKS_A_PERIOD + 1);
}

/* Counts calls that an earlier gateway had not written to the meter's row when it died. */
static void count_noted_calls(struct sandbox *s)
{
	uint64_t n =
		crash_counter_find(s->fleet->crash_counters, s->id, &s->account->calls_counter);
	uint64_t known = s->account->meter ? meter_total(s->account->meter)->of[USAGE_CALLS] : n;

	if (n <= known)
		return;
	meter_count_calls(s->account->meter, n - known);
	(void)!meters_write(meters_of(s), /* is_synced= */ false, NULL);
}

/* If the meter was never written, the sandbox ran for less than a look: it starts again from its
 * creation.
 */
void account_adopt(struct sandbox *s)
{
	const struct quota_owner owner = owner_of(s);

	if (s->fleet->config.quota) {
		s->account->held = s->place == PLACE_ALIVE ? held_by(&s->limits) : held_at_rest(s);
		quota_take(s->fleet->config.quota, &owner, &s->account->held);
	}
	if (meters_of(s) && s->place == PLACE_ALIVE && s->state != SANDBOX_CREATING &&
	    s->state != SANDBOX_STOPPING)
		start(s, steady_at(s->created_us));
	else if (meters_of(s))
		s->account->meter = meter_find(meters_of(s), s->id);
	count_noted_calls(s);
	history_adopt(s);
}

static void on_kept_final(const struct msg_reply *reply, void *arg)
{
	struct fleet *fleet = arg;
	struct meter *m = meter_find(fleet->config.meters, reply->id);
	struct sandbox *s = fleet_find_id(fleet, reply->id);

	if (!m || reply->err.code != ERR_NONE) /* the next start asks again */
		return;
	if (s && s->is_kept) {
		meter_hold(m, &reply->usage, NOTHING_MORE);
		return;
	}
	if (s)
		s->account->meter = NULL; /* one whose files are lost still had it */
	meter_close(m, &reply->usage, NOTHING_MORE);
}

static void close_by_kept_final(struct fleet *fleet, const char *id)
{
	struct msg_request req = {.op = MSG_STOP}; /* a kept layer stays */

	(void)snprintf(req.id, sizeof(req.id), "%s", id);
	(void)!broker_client_ask(fleet->broker, &req, on_kept_final, fleet, NULL, NULL);
}

static void settle_one(struct meter *m, void *arg)
{
	struct fleet *fleet = arg;
	const struct sandbox *s = fleet_find_id(fleet, meter_sandbox_id(m));

	for (const struct stored_kind *k = fleet->stored; k->prefix; k++)
		if (id_is_valid(meter_sandbox_id(m), k->prefix)) {
			if (!k->is_known(fleet, meter_sandbox_id(m)))
				meter_close(m, NULL, NOTHING_MORE);
			return;
		}
	if (!s || !sandbox_is_alive(s))
		close_by_kept_final(fleet, meter_sandbox_id(m));
}

void account_settle_old(struct fleet *fleet)
{
	if (fleet->config.meters)
		meters_each(fleet->config.meters, settle_one, fleet);
	history_settle(fleet);
}

static void end_meter(struct sandbox *s)
{
	uint64_t until_us =
		s->account->charge_until_us ? s->account->charge_until_us : steady_at(s->end.at_us);
	struct guest_usage last = s->account->last_usage;

	if (!s->account->has_last_usage && !s->is_kept)
		s->account->meter = NULL; /* account_settle_old() has it in hand */
	last.disk_bytes += s->kept_bytes;
	if (s->account->meter && s->account->has_last_usage && s->is_kept)
		meter_hold(s->account->meter, &last, until_us);
	else if (s->account->meter && s->account->has_last_usage)
		meter_close(take_ptr(s->account->meter), &s->account->last_usage, until_us);
	crash_counter_drop(s->fleet->crash_counters,
	                   &s->account->calls_counter); /* all are in the meter's row */
}

/* Its snapshot has its own meter; a layer that is kept as well is still charged. */
static void hold_meter(struct sandbox *s)
{
	struct guest_usage last = s->account->last_usage;

	if (!s->account->meter || !s->account->has_last_usage)
		return;
	if (!s->is_kept)
		last.disk_bytes = 0;
	last.disk_bytes += s->kept_bytes;
	meter_hold(s->account->meter, &last, clock_steady_us());
}

static void release(struct sandbox *s)
{
	const struct quota_held rest = held_at_rest(s);

	give_back(s, &rest);
}

void account_on_move(struct sandbox *s, enum sandbox_state next)
{
	history_on_move(s, next);
	if (next == SANDBOX_STOPPED || next == SANDBOX_FAILED ||
	    (next == SANDBOX_PAUSED && s->paused_in[0]))
		release(s);
	if (!meters_of(s))
		return;
	switch (next) {
	case SANDBOX_RUNNING: /* written at once, so that it is not started twice */
		start(s, clock_steady_us());
		(void)!meters_write(meters_of(s), /* is_synced= */ false, NULL);
		break;
	case SANDBOX_STOPPING:
		/* A kept sandbox has been charged for its files. */
		s->account->charge_until_us =
			s->link || !sandbox_is_alive(s) ? clock_steady_us() : NOTHING_MORE;
		break;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		end_meter(s);
		break;
	case SANDBOX_CREATING: /* again: another run with counters of its own */
		s->account->has_last_usage = false;
		s->account->seen_us = 0;
		break;
	case SANDBOX_PAUSED:
		if (s->paused_in[0])
			hold_meter(s);
		break;
	case SANDBOX_PAUSING:
	case SANDBOX_STATE_COUNT:
		break;
	}
}

void account_on_files_lost(struct sandbox *s)
{
	release(s); /* account_settle_old() has the meter in hand */
}

void account_on_gone(struct sandbox *s, const struct msg_reply *reply)
{
	s->account->last_usage = reply->usage;
	s->account->has_last_usage = true;
}

void account_on_limits(struct sandbox *s)
{
	const struct quota_held keeps = held_by(&s->limits);

	if (--s->account->n_limits_due == 0 && s->account->held.of[QUOTA_SANDBOXES] > 0)
		give_back(s, &keeps);
	if (s->account->meter)
		meter_set_memory_limit(s->account->meter, s->limits.memory_bytes);
}

/* Written at once: the exec is about to begin, and an acknowledged exec must be charged even if the
 * gateway dies. */
void account_on_exec(struct sandbox *s)
{
	if (!s->account->meter)
		return;
	meter_count_exec(s->account->meter);
	(void)!meters_write(meters_of(s), /* is_synced= */ false, NULL);
}

/* The meter is written later; until then the crash counter has it, even if the gateway dies. */
void account_on_call(struct sandbox *s)
{
	if (!s->account->meter)
		return;
	meter_count_calls(s->account->meter, 1);
	crash_counter_set(s->fleet->crash_counters, &s->account->calls_counter, s->id,
	                  meter_total(s->account->meter)->of[USAGE_CALLS]);
}

void account_init(struct sandbox *s)
{
	s->account = xnew0(struct account);
	s->account->calls_counter = CRASH_COUNTER_NONE;
}

void account_free(struct sandbox *s)
{
	broker_client_cancel(s->fleet->broker, s->account->reading);
	samples_free(s->account->samples);
	release(s);
	free(take_ptr(s->account));
}

void sandbox_count_network(struct sandbox *s, uint64_t in_bytes, uint64_t out_bytes)
{
	if (s->account->meter)
		meter_count_network(s->account->meter, in_bytes, out_bytes);
}
