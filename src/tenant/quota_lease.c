// SPDX-License-Identifier: Apache-2.0
/*
 * A lease for each thing that an account has a limit of. What is spent of it follows what the
 * account holds; what existed before there was a lease is borrowed, and covered by a call.
 *
 * An admission that finds too little says so, and that more is asked for (is_asked in the error):
 * whoever can, tries it again with the answer. At first there is hope that others give back what
 * they do not use, for QUOTA_HOPE_US; later only the round trip is waited for, and where the
 * database has just said that nothing is left, not even that.
 */

#include "base/text/decimal.h"
#include "tenant/day.h"
#include "tenant/quota_fields.h"
#include "tenant/quota_lease_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PACE_US  UINT64_C(250000)   /* between two calls of which the first gave too little */
#define FRESH_US UINT64_C(1000000)  /* an answer that says that nothing is left */
#define TELL_US  UINT64_C(10000000) /* what is used is told that often */

static enum quota_what what_of(unsigned part)
{
	return part == PART_BUDGET ? QUOTA_BUDGET_NANO : (enum quota_what)part;
}

/* As the database knows it. */
static void part_name(const struct quota *q, unsigned part, char ret[NAME_SIZE])
{
	char month[DAY_TEXT_SIZE];

	day_format(q->month, month);
	(void)snprintf(ret, NAME_SIZE, "%s%s%s", quota_field_name(what_of(part)),
	               part == PART_BUDGET ? ":" : "", part == PART_BUDGET ? month : "");
}

static bool is_limited(const struct quota *q, const struct account *a, unsigned part)
{
	return quota_limit_of(q, a, what_of(part)) != QUOTA_UNLIMITED;
}

static uint64_t spent_of(const struct quota *q, const struct account *a, unsigned part)
{
	return part == PART_BUDGET ? quota_cost(q, a, &a->current) : a->current.of[part];
}

static uint64_t more_of(const struct quota *q, const struct account *a,
                        const struct quota_held *more, bool is_create, unsigned part)
{
	struct quota_held held = a->current;

	if (part != PART_BUDGET)
		return more->of[part];
	for (unsigned i = 0; i < QUOTA_HELD_COUNT; i++)
		held.of[i] = sum_u64(held.of[i], more->of[i]);
	return sum_u64(quota_cost(q, a, &held) - quota_cost(q, a, &a->current),
	               is_create ? q->config.prices.create : 0);
}

static void follow(const struct quota *q, struct account_leases *l)
{
	if (l->month != q->month) { /* another budget */
		l->month = q->month;
		lease_joined(&l->of[PART_BUDGET].lease, 0);
		l->of[PART_BUDGET].lack_since_us = 0;
	}
	for (unsigned i = 0; i < PART_COUNT; i++) {
		struct lease *lease = &l->of[i].lease;
		const uint64_t spent =
			is_limited(q, l->account, i) ? spent_of(q, l->account, i) : 0;

		if (spent > lease->spent)
			lease_force(lease, spent - lease->spent);
		else
			lease_give(lease, lease->spent - spent);
	}
}

static struct account_leases *leases_of(struct quota *q, struct account *a)
{
	struct account_leases *l = a->leases;

	if (l)
		return l;
	a->leases = l = xnew0(struct account_leases);
	l->account = a;
	for (unsigned i = 0; i < PART_COUNT; i++)
		l->of[i].lease.idle_since_us = q->config.steady_us();
	list_init(&l->link);
	list_append(&q->leased, &l->link);
	return l;
}

bool quota_lease_has(struct quota *q, struct account *a, const struct quota_owner *owner)
{
	if (!q->sharing || !q->sharing->is_shared(owner, a->is_key, q->sharing_arg))
		return false;
	if (a->leases)
		return true;
	for (unsigned i = 0; i < QUOTA_COUNT; i++)
		if (quota_limit_of(q, a, (enum quota_what)i) != QUOTA_UNLIMITED) {
			(void)leases_of(q, a);
			follow(q, a->leases);
			return true;
		}
	return false;
}

void quota_put_refusal(const struct account *a, enum quota_what what, uint64_t limit,
                       uint64_t current, struct err *err)
{
	(void)snprintf(err->quota.what, sizeof(err->quota.what), "%s", quota_field_name(what));
	quota_field_format(what, limit, err->quota.limit, sizeof(err->quota.limit));
	quota_field_format(what, current, err->quota.current, sizeof(err->quota.current));
	err->quota.is_of_key = a->is_key;
}

static int refuse_held(const struct quota *q, const struct account *a, const struct part *p,
                       enum quota_what what, struct err *err)
{
	const uint64_t limit = quota_limit_of(q, a, what);
	const uint64_t here = a->current.of[what];
	char texts[2][24];

	quota_field_format(what, limit, texts[0], sizeof(texts[0]));
	quota_field_format(what, here, texts[1], sizeof(texts[1]));
	(void)err_set(
		err, ERR_QUOTA, 0,
		"the %s may have %s %s at once in the whole cluster, has %s on this node, and "
		"the other nodes have what is left",
		quota_whose(a), texts[0], quota_field_name(what), texts[1]);
	quota_put_refusal(a, what, limit, p->answered_us ? MAX(p->used, here) : here, err);
	return err_hint(err, "delete some sandboxes, wait for room with wait_ms, or ask an admin "
	                     "for a larger quota");
}

static int refuse_budget(const struct quota *q, const struct account *a, struct err *err)
{
	const uint64_t limit = quota_limit_of(q, a, QUOTA_BUDGET_NANO);
	char text[DECIMAL_SIZE];

	decimal_format(limit, text);
	(void)err_set(err, ERR_BUDGET, 0,
	              "the %s's budget of this month is %s %s in the whole cluster, and what all "
	              "nodes together have left does not cover what could be used next",
	              quota_whose(a), text, q->config.currency);
	quota_put_refusal(a, QUOTA_BUDGET_NANO, limit, price_cost(&q->config.prices, &a->month),
	                  err);
	return err_hint(err, "wait for the next month, or ask an admin for a larger budget");
}

/* Whether it makes sense to ask: not where the database has just said that nothing is left, and
 * others had time to give back what they do not use. */
static bool has_hope(const struct quota *q, const struct part *p)
{
	const uint64_t now_us = q->config.steady_us();

	return p->lack_since_us == 0 || now_us - p->lack_since_us < QUOTA_HOPE_US ||
	       now_us - p->answered_us >= FRESH_US;
}

/* More is leased than a limit that was lowered allows: what becomes free goes back. */
static bool is_over(const struct quota *q, const struct account_leases *l, unsigned what)
{
	return l->of[what].leased > quota_limit_of(q, l->account, what_of(what));
}

static bool has_unspent(const struct lease *l, uint64_t n)
{
	return l->amount >= l->spent && l->amount - l->spent >= n;
}

int quota_lease_check(struct quota *q, struct account *a, const struct quota_held *more,
                      bool is_create, struct err *err)
{
	struct account_leases *l = leases_of(q, a);
	int lacking = -1;
	bool is_asked = false;
	int r;

	follow(q, l);
	for (unsigned i = 0; i < PART_COUNT; i++) {
		const uint64_t n = is_limited(q, a, i) ? more_of(q, a, more, is_create, i) : 0;

		if (n == 0 || (!is_over(q, l, i) && has_unspent(&l->of[i].lease, n)))
			continue;
		lacking = lacking < 0 ? (int)i : lacking;
		if (!err || !has_hope(q, &l->of[i]))
			continue;
		if (is_over(q, l, i))
			l->of[i].lease.is_unsure = true; /* a call tells whether it still is */
		else
			lease_want(&l->of[i].lease, n);
		is_asked = true;
	}
	if (lacking < 0)
		return is_create && quota_limit_of(q, a, QUOTA_CREATES_PER_MINUTE) !=
		                               QUOTA_UNLIMITED
		               ? quota_rate_check(q, a, &l->rate, err)
		               : 0;
	if (!err)
		return -EAGAIN;
	r = q->sharing->check(err, q->sharing_arg);
	if (r < 0)
		return r;
	r = lacking == PART_BUDGET
	            ? refuse_budget(q, a, err)
	            : refuse_held(q, a, &l->of[lacking], what_of((unsigned)lacking), err);
	err->quota.is_asked = is_asked;
	if (is_asked)
		q->sharing->wanted(q->sharing_arg);
	return r;
}

/* What runs already goes on while nobody can be asked. */
bool quota_lease_is_spent(struct quota *q, struct account *a, struct err *err)
{
	struct part *p;

	if (!is_limited(q, a, PART_BUDGET))
		return false;
	follow(q, a->leases);
	p = &a->leases->of[PART_BUDGET];
	if (lease_borrowed(&p->lease) == 0)
		return false;
	q->sharing->wanted(q->sharing_arg);
	if (has_hope(q, p))
		return false;
	(void)refuse_budget(q, a, err);
	return true;
}

void quota_lease_moved(struct quota *q, struct account *a)
{
	follow(q, a->leases);
}

/* What this node has beyond a lower limit goes back at once. */
void quota_lease_set(struct quota *q, struct account *a)
{
	follow(q, a->leases);
	for (unsigned i = 0; i < PART_COUNT; i++) {
		const bool has_limit = is_limited(q, a, i);

		lease_recall(&a->leases->of[i].lease);
		a->leases->of[i].lease.is_unsure |=
			has_limit; /* a call is made, whatever is free */
		a->leases->of[i].leased = has_limit ? UINT64_MAX : 0; /* until it is answered */
		a->leases->of[i].lack_since_us = 0;
	}
	a->leases->rate.bought = 0;
	a->leases->rate.wait_until_us = 0;
	q->sharing->wanted(q->sharing_arg);
}

void quota_lease_free(struct account *a)
{
	if (!a->leases)
		return;
	list_remove(&a->leases->link);
	free(a->leases);
	a->leases = NULL;
}

static bool is_due(const struct quota *q, struct part *p, struct lease_call *ret)
{
	const uint64_t now_us = q->config.steady_us();

	if (p->lack_since_us && now_us - p->answered_us < PACE_US)
		return false;
	if (p->told_spent != p->lease.spent && now_us - p->answered_us >= TELL_US)
		p->lease.is_unsure = true; /* a call that changes nothing tells it */
	return lease_next(&p->lease, now_us, ret);
}

size_t quota_leases_due(struct quota *q, struct quota_lease_ask *ret, size_t n_max)
{
	size_t n = 0;

	list_for_each (&q->leased, struct account_leases, l, link) {
		follow(q, l);
		for (unsigned i = 0; i < PART_COUNT && n < n_max; i++) {
			struct part *p = &l->of[i];
			const struct account *a = l->account;
			struct quota_lease_ask ask = {.spent = spent_of(q, a, i)};

			if (is_limited(q, a, i) && is_over(q, l, i) && has_unspent(&p->lease, 1))
				lease_recall(&p->lease);
			if (!is_due(q, p, &ask.call))
				continue;
			(void)snprintf(ask.owner, sizeof(ask.owner), "%s", a->id);
			part_name(q, i, ask.what);
			ask.usual = a->is_key ? 0 : q->config.defaults.of[what_of(i)];
			p->asked = ask.call.total;
			p->least = ask.call.least;
			p->told_spent = p->lease.spent;
			ret[n++] = ask;
		}
	}
	return n;
}

static struct part *find_part(struct quota *q, const char *owner, const char *what)
{
	struct account *a = quota_account_find(q, owner);

	for (unsigned i = 0; a && a->leases && i < PART_COUNT; i++) {
		char name[NAME_SIZE];

		part_name(q, i, name);
		if (strcmp(name, what) == 0)
			return &a->leases->of[i];
	}
	return NULL;
}

static bool lacks(const struct quota *q, const struct account_leases *l, const struct part *p)
{
	return p->lease.amount < p->least || is_over(q, l, (unsigned)(p - l->of));
}

bool quota_lease_answered(struct quota *q, const struct quota_lease_answer *a)
{
	struct part *p = find_part(q, a->owner, a->what);
	const uint64_t now_us = q->config.steady_us();
	uint64_t total;

	if (!p)
		return true;
	if (!a->has_total) {
		lease_failed(&p->lease, a->number);
		return false;
	}
	total = MIN(a->total, p->asked); /* a database that lies gives no more than was asked for */
	if (!lease_answered(&p->lease, a->number, total))
		return true;
	p->answered_us = now_us;
	p->limit = a->limit;
	p->leased = a->leased;
	p->used = a->used;
	if (!lacks(q, quota_account_find(q, a->owner)->leases, p))
		p->lack_since_us = 0;
	else if (p->lack_since_us == 0)
		p->lack_since_us = now_us;
	return true;
}

void quota_lease_failed(struct quota *q, const char *owner, const char *what, uint64_t number)
{
	struct part *p = find_part(q, owner, what);

	if (p)
		lease_failed(&p->lease, number);
}

void quota_leases_forget(struct quota *q)
{
	list_for_each (&q->leased, struct account_leases, l, link) {
		for (unsigned i = 0; i < PART_COUNT; i++) {
			lease_joined(&l->of[i].lease, 0);
			l->of[i].lack_since_us = l->of[i].answered_us = l->of[i].leased = 0;
		}
		l->rate = (struct rate){0};
	}
}

void quota_lease_own(struct quota *q, const char *owner, const char *what, uint64_t number,
                     uint64_t total)
{
	struct account *a = quota_account_find(q, owner);
	struct part *p;

	if (!a)
		a = quota_account_new(q, owner);
	(void)leases_of(q, a);
	p = find_part(q, owner, what);
	if (!p)
		return;
	lease_joined(&p->lease, total);
	p->lease.number = number;
	p->lease.idle_since_us = q->config.steady_us();
	follow(q, a->leases);
}

void quota_lease_recall(struct quota *q, const char *owner, const char *what)
{
	struct part *p = find_part(q, owner, what);

	if (p)
		lease_recall(&p->lease);
}

bool quota_leases_have_rest(const struct quota *q)
{
	list_for_each (&q->leased, const struct account_leases, l, link)
		for (unsigned i = 0; i < PART_COUNT; i++)
			if (has_unspent(&l->of[i].lease, 1))
				return true;
	return false;
}

bool quota_lease_refresh(struct quota *q, const struct quota_owner *owner)
{
	struct account *accounts[QUOTA_OWNERS];
	const size_t n = quota_accounts_of(q, owner, accounts);
	const uint64_t now_us = q->config.steady_us();
	bool is_asked = false;

	for (size_t i = 0; i < n; i++) {
		if (!quota_lease_has(q, accounts[i], owner))
			continue;
		for (unsigned k = 0; k < PART_COUNT; k++) {
			struct part *p = &accounts[i]->leases->of[k];

			if (!is_limited(q, accounts[i], k) || now_us - p->answered_us < FRESH_US)
				continue;
			p->lease.is_unsure = is_asked = true;
		}
	}
	if (is_asked)
		q->sharing->wanted(q->sharing_arg);
	return is_asked;
}

static void put_part(struct json_writer *w, const struct part *p, enum quota_what what,
                     uint64_t wall_us)
{
	json_open_object(w, quota_field_name(what));
	quota_field_put_as(w, "used", what, p->used);
	quota_field_put_as(w, "reserved", what, p->leased);
	quota_field_put_as(w, "reserved_here", what, p->lease.amount);
	json_put_u64(w, "as_of_us", wall_us);
	json_close_object(w);
}

/* What all nodes together have of each limit, as far as this one was told. */
void quota_lease_put(struct quota *q, struct account *a, struct json_writer *w)
{
	const uint64_t now_us = q->config.steady_us(), wall_us = q->config.wall_us();

	if (!q->sharing || !a->leases) {
		json_put_null(w, "cluster");
		return;
	}
	json_open_object(w, "cluster");
	for (unsigned i = 0; i < PART_COUNT; i++) {
		const struct part *p = &a->leases->of[i];

		if (p->answered_us && is_limited(q, a, i))
			put_part(w, p, what_of(i), wall_us - (now_us - p->answered_us));
	}
	json_close_object(w);
}

void quota_share(struct quota *q, const struct quota_sharing *sharing, void *arg)
{
	q->sharing = sharing;
	q->sharing_arg = arg;
}
