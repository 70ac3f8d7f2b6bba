// SPDX-License-Identifier: Apache-2.0
/*
 * An account belongs to a project or a key. It is made when its owner is first seen, and then reads
 * from the store what was spent this month; after that, every reading of a meter is added
 * (quota_on_use()).
 *
 * A budget is enforced ahead of time: an account has run out when the rest does not cover what its
 * sandboxes could cost, at full load, until the next check. Two things can still exceed it: network
 * traffic, which has no bound per time, and a time in which the daemon was down.
 *
 * Creates per minute are a bucket that holds a minute's worth and fills evenly. A token is a minute
 * in microseconds, so that filling is a product of whole numbers. After a restart all buckets are
 * full.
 */
#include "base/clock.h"
#include "base/id.h"
#include "base/text/decimal.h"
#include "base/units.h"
#include "event/event.h"
#include "tenant/day.h"
#include "tenant/quota_fields.h"
#include "tenant/quota_private.h"
#include "tenant/share.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

DEFINE_FREEP(struct quota, quota_close)

uint64_t quota_limit_of(const struct quota *q, const struct account *a, enum quota_what what)
{
	if (a->setting.is_set[what])
		return a->setting.limits.of[what];
	return a->is_key ? QUOTA_UNLIMITED : q->config.defaults.of[what];
}

struct spending {
	const char *key_id; /* NULL = of all keys */
	struct usage sum;
};

static int add_day(const struct usage_row *row, void *arg)
{
	struct spending *s = arg;

	if (!s->key_id || strcmp(s->key_id, row->key_id) == 0)
		usage_add(&s->sum, &row->usage);
	return 0;
}

/* If the store cannot be read, nothing counts as spent; the meters report the failure
 * themselves. */
static void load_month(struct quota *q, struct account *a, const struct quota_owner *owner)
{
	struct spending s = {.key_id = a->is_key ? owner->key_id : NULL};

	if (store_usage_each_day(q->store, owner->project_id, q->month, DAY_MAX, add_day, &s,
	                         NULL) == 0)
		a->month = s.sum;
}

/* At the end of a month all accounts start from zero. */
static void turn_month(struct quota *q)
{
	int32_t month = day_month(day_of(q->config.wall_us()));

	if (month == q->month)
		return;
	q->month = month;
	for (struct account *a = q->accounts; a; a = a->hh.next)
		a->month = (struct usage){0};
}

struct account *quota_account_find(struct quota *q, const char *id)
{
	struct account *a = NULL;

	HASH_FIND_STR(q->accounts, id, a);
	return a;
}

struct account *quota_account_new(struct quota *q, const char *id)
{
	struct account *a = xnew0(struct account);

	(void)snprintf(a->id, sizeof(a->id), "%s", id);
	a->is_key = strncmp(id, "key_", 4) == 0;
	HASH_ADD_STR(q->accounts, id, a);
	return a;
}

/* The owner's accounts; returns how many. */
size_t quota_accounts_of(struct quota *q, const struct quota_owner *owner,
                         struct account *ret[QUOTA_OWNERS])
{
	const char *const ids[QUOTA_OWNERS] = {owner->project_id, owner->key_id};
	size_t n = 0;

	turn_month(q);
	for (size_t i = 0; i < QUOTA_OWNERS; i++) {
		struct account *a;

		if (ids[i][0] == '\0')
			continue;
		a = quota_account_find(q, ids[i]);
		if (!a)
			a = quota_account_new(q, ids[i]);
		if (a->filled_us == 0) {
			a->filled_us = q->config.steady_us();
			a->tokens = UINT64_MAX; /* as many as may be */
			load_month(q, a, owner);
		}
		ret[n++] = a;
	}
	return n;
}

void quota_fill_bucket(struct quota *q, struct account *a)
{
	uint64_t rate = quota_limit_of(q, a, QUOTA_CREATES_PER_MINUTE);
	uint64_t now = q->config.steady_us();

	if (rate == QUOTA_UNLIMITED)
		return;
	a->tokens = MIN(sum_u64(a->tokens, scale_u64(now - a->filled_us, rate, 1)),
	                scale_u64(rate, QUOTA_TOKEN, 1));
	a->filled_us = now;
}

/* What an account could cost until the next check. */
static uint64_t cost_ahead(const struct quota *q, const struct quota_held *held)
{
	uint64_t ms = q->config.ahead_ms;
	const struct usage u = {
		.of = {
			[USAGE_CPU_NS] = scale_u64(held->of[QUOTA_CPU_MILLI], ms * 1000, 1),
			[USAGE_MEMORY_MIB_MS] = scale_u64(held->of[QUOTA_MEMORY_BYTES], ms, MIB),
			[USAGE_DISK_MIB_MS] = scale_u64(held->of[QUOTA_DISK_BYTES], ms, MIB),
		}};

	return price_cost(&q->config.prices, &u);
}

uint64_t quota_cost(const struct quota *q, const struct account *a, const struct quota_held *held)
{
	return sum_u64(price_cost(&q->config.prices, &a->month), cost_ahead(q, held));
}

const char *quota_whose(const struct account *a)
{
	return a->is_key ? "key" : "project";
}

static void put_figures(enum quota_what what, uint64_t limit, uint64_t current,
                        uint64_t retry_after_ms, struct err *err)
{
	if (!err)
		return;
	(void)snprintf(err->quota.what, sizeof(err->quota.what), "%s", quota_field_name(what));
	quota_field_format(what, limit, err->quota.limit, sizeof(err->quota.limit));
	quota_field_format(what, current, err->quota.current, sizeof(err->quota.current));
	err->quota.retry_after_ms = retry_after_ms;
}

static void put_owner(const struct account *a, bool is_final, struct err *err)
{
	if (!err)
		return;
	err->quota.is_of_key = a->is_key;
	err->quota.is_final = is_final;
}

static int refuse_held(const struct account *a, enum quota_what what, uint64_t limit,
                       uint64_t asked, struct err *err)
{
	char texts[3][DECIMAL_SIZE];

	quota_field_format(what, limit, texts[0], sizeof(texts[0]));
	quota_field_format(what, a->current.of[what], texts[1], sizeof(texts[1]));
	quota_field_format(what, asked, texts[2], sizeof(texts[2]));
	(void)err_set(err, ERR_QUOTA, 0,
	              "the %s may have %s %s at once, has %s and asks for %s more", quota_whose(a),
	              texts[0], quota_field_name(what), texts[1], texts[2]);
	put_figures(what, limit, a->current.of[what], 0, err);
	put_owner(a, /* is_final= */ asked > limit, err);
	return asked > limit
	               ? err_hint(err, "ask for less, or ask an admin for a larger quota")
	               : err_hint(err,
	                          "delete some sandboxes, wait for room with wait_ms, or ask an "
	                          "admin for a larger quota");
}

static uint64_t month_left_ms(const struct quota *q)
{
	uint64_t end_us = (uint64_t)day_next_month(q->month) * DAY_US;
	uint64_t now_us = q->config.wall_us();

	return end_us > now_us ? (end_us - now_us) / 1000 + 1 : 1;
}

static int check_budget(struct quota *q, const struct account *a, const struct quota_held *held,
                        uint64_t extra_nano, struct err *err)
{
	uint64_t limit = quota_limit_of(q, a, QUOTA_BUDGET_NANO);
	uint64_t spent, needed;
	char texts[2][DECIMAL_SIZE];

	if (limit == QUOTA_UNLIMITED)
		return 0;
	spent = price_cost(&q->config.prices, &a->month);
	needed = sum_u64(quota_cost(q, a, held), extra_nano);
	if (needed <= limit)
		return 0;
	decimal_format(limit, texts[0]);
	decimal_format(spent, texts[1]);
	(void)err_set(err, ERR_BUDGET, 0,
	              "the %s's budget of this month is %s %s, and with %s spent the rest does not "
	              "cover what could be used next",
	              quota_whose(a), texts[0], q->config.currency, texts[1]);
	put_figures(QUOTA_BUDGET_NANO, limit, spent, month_left_ms(q), err);
	return err_hint(err, "wait for the next month, or ask an admin for a larger budget");
}

static int check_creates(struct quota *q, struct account *a, struct err *err)
{
	uint64_t rate = quota_limit_of(q, a, QUOTA_CREATES_PER_MINUTE);
	uint64_t wait_us;

	quota_fill_bucket(q, a);
	if (rate == QUOTA_UNLIMITED || a->tokens >= QUOTA_TOKEN)
		return 0;
	wait_us = rate ? (QUOTA_TOKEN - a->tokens + rate - 1) / rate : 0;
	(void)err_set(err, ERR_QUOTA, 0,
	              "the %s may create %" PRIu64 " sandboxes a minute, and has", quota_whose(a),
	              rate);
	put_figures(QUOTA_CREATES_PER_MINUTE, rate, rate, wait_us / 1000 + (rate > 0), err);
	put_owner(a, /* is_final= */ rate == 0, err);
	return err_hint(err, "try again a little later");
}

static int check(struct quota *q, struct account *a, const struct quota_held *more, bool is_create,
                 struct err *err)
{
	struct quota_held held = a->current;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < QUOTA_HELD_COUNT; i++) {
		uint64_t limit = quota_limit_of(q, a, (enum quota_what)i);

		held.of[i] = sum_u64(held.of[i], more->of[i]);
		if (more->of[i] > 0 && held.of[i] > limit)
			r = refuse_held(a, (enum quota_what)i, limit, more->of[i], err);
	}
	if (r == 0)
		r = check_budget(q, a, &held, is_create ? q->config.prices.create : 0, err);
	if (r == 0 && is_create)
		r = check_creates(q, a, err);
	return r;
}

int quota_check_possible(struct quota *q, const struct quota_owner *owner,
                         const struct quota_held *more, struct err *err)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < QUOTA_HELD_COUNT; k++) {
			uint64_t limit = quota_limit_of(q, accounts[i], (enum quota_what)k);

			if (more->of[k] > limit)
				return refuse_held(accounts[i], (enum quota_what)k, limit,
				                   more->of[k], err);
		}
		if (quota_limit_of(q, accounts[i], QUOTA_CREATES_PER_MINUTE) == 0)
			return check_creates(q, accounts[i], err);
	}
	return 0;
}

bool quota_has_room(struct quota *q, const struct quota_owner *owner, const struct quota_held *more)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++)
		if (check(q, accounts[i], more, /* is_create= */ false, NULL) < 0 ||
		    (quota_lease_has(q, accounts[i], owner) &&
		     quota_lease_check(q, accounts[i], more, /* is_create= */ false, NULL) < 0))
			return false;
	return true;
}

int quota_admit(struct quota *q, const struct quota_owner *owner, const struct quota_held *more,
                bool is_create, struct err *err)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++) {
		const bool is_shared = quota_lease_has(q, accounts[i], owner);
		int r = check(q, accounts[i], more, is_create && !is_shared, err);

		if (r == 0 && is_shared)
			r = quota_lease_check(q, accounts[i], more, is_create, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; is_create && i < n; i++)
		if (quota_lease_has(q, accounts[i], owner))
			quota_lease_created(accounts[i]);
		else if (quota_limit_of(q, accounts[i], QUOTA_CREATES_PER_MINUTE) !=
		         QUOTA_UNLIMITED)
			accounts[i]->tokens -= QUOTA_TOKEN;
	quota_take(q, owner, more);
	return 0;
}

void quota_take(struct quota *q, const struct quota_owner *owner, const struct quota_held *more)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < QUOTA_HELD_COUNT; k++)
			accounts[i]->current.of[k] =
				sum_u64(accounts[i]->current.of[k], more->of[k]);
		if (quota_lease_has(q, accounts[i], owner))
			quota_lease_moved(q, accounts[i]);
	}
}

void quota_give(struct quota *q, const struct quota_owner *owner, const struct quota_held *less)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < QUOTA_HELD_COUNT; k++)
			accounts[i]->current.of[k] -= MIN(accounts[i]->current.of[k], less->of[k]);
		if (quota_lease_has(q, accounts[i], owner))
			quota_lease_moved(q, accounts[i]);
	}
}

void quota_on_use(const char *project_id, const char *key_id, const struct usage *more, void *arg)
{
	struct quota *q = arg;
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, &(struct quota_owner){project_id, key_id}, accounts);

	for (size_t i = 0; i < n; i++)
		usage_add(&accounts[i]->month, more);
}

bool quota_is_spent(struct quota *q, const struct quota_owner *owner, struct err *err)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++)
		if (check_budget(q, accounts[i], &accounts[i]->current, 0, err) < 0 ||
		    (quota_lease_has(q, accounts[i], owner) &&
		     quota_lease_is_spent(q, accounts[i], err)))
			return true;
	return false;
}

int quota_check_ceilings(struct quota *q, const struct quota_owner *owner,
                         const struct ceilings *asked, struct err *err)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = ceilings_check(&accounts[i]->setting.ceilings, asked, quota_whose(accounts[i]),
		                   err);
	return r;
}

void quota_lower_to_ceilings(struct quota *q, const struct quota_owner *owner,
                             struct ceilings *values)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);

	for (size_t i = 0; i < n; i++)
		ceilings_lower(&accounts[i]->setting.ceilings, values);
}

static const char *id_of(const struct quota_owner *owner)
{
	return owner->key_id[0] ? owner->key_id : owner->project_id;
}

/* What other parts do by a project's setting. */
static void pass_on(struct quota *q, const struct account *a)
{
	if (a->is_key)
		return;
	shares_set_weight(q->config.shares, a->id, quota_weight_of(a));
	event_log_set_age(q->config.events, a->id, a->setting.events_age_ms * 1000);
}

int quota_setting_check(const struct quota_owner *owner, const struct quota_setting *setting,
                        struct err *err)
{
	if (owner->key_id[0] && setting->weight > 0)
		return err_field(err, "weight", "is a project's, and no key has one");
	if (owner->key_id[0] && setting->events_age_ms > 0)
		return err_field(err, "events_age_ms", "is a project's, and no key has one");
	return 0;
}

int quota_set(struct quota *q, const struct quota_owner *owner, const struct quota_setting *setting,
              struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(4096);
	struct account *accounts[QUOTA_OWNERS];
	struct account *a;
	size_t n;
	int r = quota_setting_write(setting, &text);

	assert(r == 0); /* few and short fields */
	r = quota_setting_check(owner, setting, err);
	if (r == 0)
		r = store_usage_put_quota(q->store, id_of(owner), buf_str(&text), err);
	if (r < 0)
		return r;
	n = quota_accounts_of(q, owner, accounts);
	a = accounts[n - 1];
	quota_fill_bucket(q, a); /* at the old rate */
	a->setting = *setting;
	pass_on(q, a);
	if (quota_lease_has(q, a, owner))
		quota_lease_set(q, a);
	return 0;
}

static int load_setting(const char *owner_id, const char *json, void *arg)
{
	auto_json json_t *object = NULL;
	struct quota_setting setting;
	struct account *a;
	struct err err;
	int r = json_parse(json, strlen(json), &object, &err);

	if (r == 0)
		r = quota_setting_read(object, &setting, &err);
	if (r < 0) /* to go on without it would let everything through */
		return -EBADMSG;
	a = quota_account_new(arg, owner_id);
	a->setting = setting;
	pass_on(arg, a);
	return 0;
}

int quota_open(const struct quota_config *config, struct quota **ret, struct err *err)
{
	auto_call(quota_closep) struct quota *q = xnew0(struct quota);
	int r;

	q->config = *config;
	list_init(&q->leased);
	if (!q->config.steady_us)
		q->config.steady_us = clock_steady_us;
	if (!q->config.wall_us)
		q->config.wall_us = clock_wall_us;
	q->month = day_month(day_of(q->config.wall_us()));
	r = store_usage_open(config->store, &q->store, err);
	if (r == 0)
		r = store_usage_each_quota(q->store, load_setting, q, err);
	if (r == -EBADMSG)
		return err_set(err, ERR_INTERNAL, EBADMSG, "a quota in the database is unreadable");
	if (r < 0)
		return r;
	*ret = take_ptr(q);
	return 0;
}

void quota_close(struct quota *q)
{
	struct account *a;

	if (!q)
		return;
	while ((a = q->accounts)) {
		HASH_DEL(q->accounts, a);
		quota_lease_free(a);
		free(a);
	}
	store_usage_close(q->store);
	free(q);
}
