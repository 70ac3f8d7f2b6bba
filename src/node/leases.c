// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the database for leases of quotas (tenant/quota_lease.h), and for creates a minute. One call
 * of each kind is under way at a time, for all leases together. What is needed meanwhile goes into
 * the next call.
 *
 * A gateway that has just started, and one whose node has another epoch, knows no lease. It asks
 * the database for the leases of this node, which cancels calls that are still under way. Until it
 * has the answer it admits nothing that is limited. A node that is lost has no leases.
 *
 * Each answer wakes those who wait, and so does the end of their time.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"
#include "tenant/quota_lease.h"

#include <stdio.h>
#include <string.h>

#define LOOK_US     SECOND_US
#define WAIT_US     (SECOND_US / 4) /* between two calls, if somebody waits */
#define CALLS_MAX   128
#define OWNED_MAX   100000
#define WAITERS_MAX 1024
#define NUMBER_TOP  INT64_C(4611686018427387904)

struct quota_waiter {
	struct list link;
	uint64_t until_us;
	void (*fn)(void *arg);
	void *arg;
};

struct leases {
	struct node *node;
	struct loop_timer *timer;
	bool is_calling, is_owning, is_asking_wanted, is_rating;
	struct quota_lease_ask calls[CALLS_MAX]; /* under way */
	size_t n_calls;
	struct quota_rate_ask rate;
	uint64_t owned_epoch; /* of which the leases are known; 0: they are not */
	uint64_t epoch;       /* that was seen last */
	uint32_t n_compares, n_wanted;
	char after_owner[ID_SIZE], after_what[24];
	size_t n_owned;
	struct list waiters;
	size_t n_waiters;
};

static struct quota *quota_of(const struct leases *l)
{
	return l->node->config.quota;
}

static bool is_held(const struct leases *l)
{
	return node_is_in(l->node) && l->node->has_word && node_state(l->node) == FENCE_HELD;
}

static void wake(struct leases *l, bool all)
{
	struct list due = LIST_INIT(due);
	struct quota_waiter *w;
	const uint64_t now_us = clock_steady_us();

	list_for_each (&l->waiters, struct quota_waiter, one, link) {
		if (!all && now_us < one->until_us)
			continue;
		list_remove(&one->link);
		list_append(&due, &one->link);
	}
	while ((w = list_first(&due, struct quota_waiter, link))) {
		list_remove(&w->link);
		l->n_waiters--;
		w->fn(w->arg);
		free(w);
	}
}

static bool read_number(const json_t *object, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(object, name);
	const json_int_t n = json_integer_value(value);

	*ret = n < 0 ? 0 : (uint64_t)n;
	return json_is_integer(value) && n >= 0 && n <= NUMBER_TOP;
}

static const char *read_text(const json_t *object, const char *name, size_t size)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && strlen(text) < size ? text : "";
}

static void fail_all(struct leases *l)
{
	for (size_t i = 0; i < l->n_calls; i++)
		quota_lease_failed(quota_of(l), l->calls[i].owner, l->calls[i].what,
		                   l->calls[i].call.number);
}

/* What it is an answer to is looked up among what was asked: all else in it says nothing. */
static const struct quota_lease_ask *find_call(const struct leases *l, const json_t *one)
{
	const char *owner = read_text(one, "owner", ID_SIZE), *what = read_text(one, "what", 24);
	uint64_t number;

	if (!read_number(one, "number", &number))
		return NULL;
	for (size_t i = 0; i < l->n_calls; i++)
		if (strcmp(l->calls[i].owner, owner) == 0 && strcmp(l->calls[i].what, what) == 0 &&
		    l->calls[i].call.number == number)
			return &l->calls[i];
	return NULL;
}

static bool take_answer(struct leases *l, const json_t *one)
{
	const struct quota_lease_ask *call = find_call(l, one);
	struct quota_lease_answer a;

	if (!call)
		return true;
	a = (struct quota_lease_answer){
		.owner = call->owner, .what = call->what, .number = call->call.number};
	a.has_total = read_number(one, "total", &a.total);
	(void)read_number(one, "limit", &a.limit);
	(void)read_number(one, "leased", &a.leased);
	(void)read_number(one, "used", &a.used);
	return quota_lease_answered(quota_of(l), &a);
}

static void on_leased(const json_t *answer, const struct err *err, void *arg)
{
	struct leases *l = arg;
	const json_t *all = json_object_get(answer, "leases"), *one;
	bool is_current = true;
	size_t i;

	l->is_calling = false;
	if (err || strcmp(node_result(answer), "ok") != 0 || !json_is_array(all)) {
		log_warn("cluster.leases_not_had", "error='%s'",
		         err ? err->message
		             : "the answer has another shape, or is of an old epoch");
	} else {
		json_array_foreach(all, i, one)
		{
			is_current &= take_answer(l, one);
		}
	}
	fail_all(l); /* whatever had no answer */
	l->n_calls = 0;
	if (!is_current)
		l->owned_epoch = 0; /* with the next look */
	wake(l, /* all= */ true);
}

static void call_leases(struct leases *l)
{
	auto_json json_t *calls = NULL, *call = NULL;

	if (l->is_calling)
		return;
	l->n_calls = quota_leases_due(quota_of(l), l->calls, CALLS_MAX);
	if (l->n_calls == 0)
		return;
	calls = json_array();
	for (size_t i = 0; i < l->n_calls; i++) {
		const struct quota_lease_ask *c = &l->calls[i];

		(void)json_array_append_new(
			calls, json_pack("{ss ss sI sI sI sI sI}", "owner", c->owner, "what",
		                         c->what, "number", (json_int_t)c->call.number, "total",
		                         (json_int_t)MIN(c->call.total, NUMBER_TOP), "needed",
		                         (json_int_t)MIN(c->call.least, NUMBER_TOP), "spent",
		                         (json_int_t)MIN(c->spent, NUMBER_TOP), "usual",
		                         (json_int_t)MIN(c->usual, NUMBER_TOP)));
	}
	call = json_pack("{ss sO}", "call", "lease_many", "calls", calls);
	l->is_calling = true;
	node_call(l->node, call, on_leased, l);
}

static void on_rate(const json_t *answer, const struct err *err, void *arg)
{
	struct leases *l = arg;
	uint64_t n = 0, wait_ms = UINT64_MAX;

	l->is_rating = false;
	if (err || strcmp(node_result(answer), "ok") != 0 || !read_number(answer, "n", &n)) {
		quota_rate_failed(quota_of(l), l->rate.owner);
	} else {
		if (!read_number(answer, "wait_ms", &wait_ms))
			wait_ms = UINT64_MAX;
		quota_rate_answered(quota_of(l), &l->rate, n, wait_ms);
	}
	wake(l, /* all= */ true);
}

static void call_rate(struct leases *l)
{
	auto_json json_t *call = NULL;

	if (l->is_rating || !quota_rate_due(quota_of(l), &l->rate))
		return;
	call = json_pack("{ss ss sI sI}", "call", "take_rate", "owner", l->rate.owner, "n",
	                 (json_int_t)MIN(l->rate.n, INT32_MAX), "usual",
	                 (json_int_t)MIN(l->rate.usual, NUMBER_TOP));
	l->is_rating = true;
	node_call(l->node, call, on_rate, l);
}

static void own(struct leases *l);

static int take_owned(struct leases *l, const json_t *all)
{
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		const char *owner = read_text(one, "owner", ID_SIZE);
		const char *what = read_text(one, "what", sizeof(l->after_what));
		const int order = strcmp(owner, l->after_owner);
		uint64_t number, total;

		if (order < 0 || (order == 0 && strcmp(what, l->after_what) <= 0) ||
		    !read_number(one, "number", &number) || !read_number(one, "total", &total) ||
		    ++l->n_owned > OWNED_MAX)
			return -EPROTO;
		(void)snprintf(l->after_owner, sizeof(l->after_owner), "%s", owner);
		(void)snprintf(l->after_what, sizeof(l->after_what), "%s", what);
		quota_lease_own(quota_of(l), owner, what, number, total);
	}
	return 0;
}

static void on_owned(const json_t *answer, const struct err *err, void *arg)
{
	struct leases *l = arg;
	const json_t *all = json_object_get(answer, "leases");
	const size_t before = l->n_owned;

	l->is_owning = false;
	if (err || !is_held(l) || l->epoch != l->node->word.epoch ||
	    strcmp(node_result(answer), "ok") != 0 || !json_is_array(all) ||
	    take_owned(l, all) < 0) {
		log_warn("cluster.leases_not_known", "error='%s'",
		         err ? err->message
		             : "the answer has another shape, or is of an old epoch");
		quota_leases_forget(quota_of(l));
		loop_timer_set_in(l->timer, LOOK_US);
		return;
	}
	if (json_is_true(json_object_get(answer, "has_more")) && l->n_owned > before) {
		own(l);
		return;
	}
	l->owned_epoch = l->epoch;
	log_info("cluster.leases_known", "leases=%zu", l->n_owned);
	wake(l, /* all= */ true);
	loop_timer_set_in(l->timer, 0);
}

static void own(struct leases *l)
{
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "own_leases", "after_owner",
	                                   l->after_owner, "after_what", l->after_what);

	l->is_owning = true;
	node_call(l->node, call, on_owned, l);
}

static void on_wanted(const json_t *answer, const struct err *err, void *arg)
{
	struct leases *l = arg;
	const json_t *all = json_object_get(answer, "wanted"), *one;
	size_t i;

	l->is_asking_wanted = false;
	if (err)
		return;
	json_array_foreach(all, i, one)
	{
		quota_lease_recall(quota_of(l), read_text(one, "owner", ID_SIZE),
		                   read_text(one, "what", 24));
	}
	call_leases(l);
}

static void ask_wanted(struct leases *l)
{
	auto_json json_t *call = NULL;

	if (l->n_wanted == l->node->word.n_wanted || l->is_asking_wanted)
		return;
	l->n_wanted = l->node->word.n_wanted;
	if (!quota_leases_have_rest(quota_of(l)))
		return;
	call = json_pack("{ss}", "call", "wanted");
	l->is_asking_wanted = true;
	node_call(l->node, call, on_wanted, l);
}

static void look(struct leases *l)
{
	if (!is_held(l) || l->is_owning)
		return;
	if (l->owned_epoch != l->node->word.epoch) {
		if (l->is_calling || l->is_rating)
			return; /* it ends first */
		quota_leases_forget(quota_of(l));
		l->epoch = l->node->word.epoch;
		l->after_owner[0] = l->after_what[0] = '\0';
		l->n_owned = 0;
		own(l);
		return;
	}
	ask_wanted(l);
	call_leases(l);
	call_rate(l);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct leases *l = arg;

	(void)loop;
	look(l);
	wake(l, /* all= */ false);
	loop_timer_set_in(l->timer, l->n_waiters > 0 ? WAIT_US : LOOK_US);
}

void leases_on_word(struct leases *l)
{
	const struct cluster_word *word = &l->node->word;

	if (!quota_of(l) || !node_is_in(l->node))
		return;
	if (node_state(l->node) == FENCE_LOST || word->epoch != l->epoch ||
	    word->n_compares != l->n_compares) {
		quota_leases_forget(quota_of(l)); /* nothing is admitted before it is known anew */
		l->owned_epoch = 0;
		l->epoch = word->epoch;
		l->n_compares = word->n_compares;
	}
	if (!is_held(l))
		wake(l, /* all= */ true); /* they hear why not */
	loop_timer_set_in(l->timer, 0);
}

static bool is_shared(const struct quota_owner *owner, bool is_key, void *arg)
{
	const struct leases *l = arg;
	struct keyring *ring = l->node->config.keyring;
	const struct key *key;

	if (!node_is_in(l->node))
		return false;
	if (!is_key)
		return keyring_project_name(ring, owner->project_id) != NULL;
	key = keyring_find_key(ring, owner->project_id, owner->key_id);
	return key && !key_person(key);
}

static int check(struct err *err, void *arg)
{
	const struct leases *l = arg;

	return node_check(l->node, err);
}

static void on_some_wanted(void *arg)
{
	const struct leases *l = arg;

	loop_timer_set_in(l->timer, 0);
}

int node_await_quota(struct node *n, uint64_t until_us, void (*fn)(void *arg), void *arg)
{
	struct leases *l = n->leases;
	struct quota_waiter *w;

	if (l->n_waiters >= WAITERS_MAX || clock_steady_us() >= until_us)
		return -EAGAIN;
	w = xnew0(struct quota_waiter);
	*w = (struct quota_waiter){.until_us = until_us, .fn = fn, .arg = arg};
	list_init(&w->link);
	list_append(&l->waiters, &w->link);
	l->n_waiters++;
	return 0;
}

struct leases *leases_new(struct node *n)
{
	static const struct quota_sharing sharing = {
		.is_shared = is_shared, .check = check, .wanted = on_some_wanted};
	struct leases *l = xnew0(struct leases);

	l->node = n;
	list_init(&l->waiters);
	l->timer = loop_timer_new(n->config.loop, on_timer, l);
	if (quota_of(l))
		quota_share(quota_of(l), &sharing, l);
	return l;
}

void leases_free(struct leases *l)
{
	struct quota_waiter *w;

	if (quota_of(l))
		quota_share(quota_of(l), NULL, NULL);
	while ((w = list_first(&l->waiters, struct quota_waiter, link))) {
		list_remove(&w->link);
		free(w);
	}
	loop_timer_free(l->timer);
	free(l);
}
