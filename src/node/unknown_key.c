// SPDX-License-Identifier: Apache-2.0
/*
 * A key that this node does not know may have been made on another node a moment ago. So the node
 * asks for changes at once; all requests with unknown keys wait for the same answer. However many
 * there are, the database is asked once in ASK_US. Keys that were not found are remembered by their
 * digest for a while, in a table of fixed size.
 */
#include "base/clock.h"
#include "base/units.h"
#include "node/records_private.h"
#include "node/sealed_records.h"

#include <string.h>

#define ASK_US      (SECOND_US / 5)
#define ASKED_US    (2 * SECOND_US) /* how long the answer "unknown" holds */
#define WAITERS_MAX 256

struct waiter {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
	uint64_t print, since_us;
};

void records_wake_askers(struct records *r, bool is_answered)
{
	struct list waiting;
	uint64_t now = clock_steady_us();
	struct waiter *w;

	list_init(&waiting);
	list_for_each (&r->waiters, struct waiter, one, link) {
		if (is_answered && one->since_us > r->asked_us)
			continue; /* its key may have been made since the question */
		list_remove(&one->link);
		list_append(&waiting, &one->link);
		r->n_waiters--;
		if (is_answered) {
			r->unknown[one->print % ASKED_SLOTS].print = one->print;
			r->unknown[one->print % ASKED_SLOTS].us = now;
		}
	}
	if (r->n_waiters > 0)
		loop_timer_set(r->ask, r->asked_us + ASK_US);
	r->is_answered = is_answered;
	while ((w = list_first(&waiting, struct waiter, link))) {
		list_remove(&w->link);
		w->fn(w->arg);
		free(w);
	}
}

static void on_ask(struct loop *loop, void *arg)
{
	struct records *r = arg;

	(void)loop;
	if (r->n_waiters == 0)
		return;
	if (!records_is_held(r))
		records_wake_askers(r, false);
	else if (r->is_asking)
		loop_timer_set_in(r->ask, ASK_US);
	else
		records_ask_changes(r);
}

enum node_ask node_knows_unknown(const struct node *n)
{
	return n->records->is_answered ? NODE_ASK_UNKNOWN : NODE_ASK_CUT;
}

static enum node_ask wait_for(struct records *r, uint64_t print, void (*fn)(void *arg), void *arg)
{
	const uint64_t now = clock_steady_us();
	struct waiter *w;

	if (!records_is_held(r))
		return NODE_ASK_CUT;
	if (r->n_waiters >= WAITERS_MAX)
		return NODE_ASK_UNKNOWN;
	w = xnew0(struct waiter);
	*w = (struct waiter){.fn = fn, .arg = arg, .print = print, .since_us = now};
	list_init(&w->link);
	list_append(&r->waiters, &w->link);
	r->n_waiters++;
	loop_timer_set(r->ask, MAX(now, r->asked_us + ASK_US));
	return NODE_ASK_WAIT;
}

/* print: what is known to be unknown is known by it. */
static enum node_ask ask(struct records *r, uint64_t print, void (*fn)(void *arg), void *arg)
{
	uint64_t now = clock_steady_us();

	if (r->unknown[print % ASKED_SLOTS].print == print &&
	    now - r->unknown[print % ASKED_SLOTS].us < ASKED_US)
		return NODE_ASK_UNKNOWN;
	return wait_for(r, print, fn, arg);
}

enum node_ask node_ask_fresh(struct node *n, uint64_t since_us, void (*fn)(void *arg), void *arg)
{
	return n->records->answered_us >= since_us ? NODE_ASK_UNKNOWN
	                                           : wait_for(n->records, 0, fn, arg);
}

enum node_ask node_ask_key(struct node *n, const char *secret, void (*fn)(void *arg), void *arg)
{
	unsigned char hash[32];
	uint64_t print;

	if (!key_hash_secret(secret, hash))
		return NODE_ASK_UNKNOWN;
	memcpy(&print, hash, sizeof(print));
	return ask(n->records, print, fn, arg);
}

enum node_ask node_ask_key_id(struct node *n, const char *id, void (*fn)(void *arg), void *arg)
{
	uint64_t print = UINT64_C(14695981039346656037);

	for (const char *p = id; *p; p++)
		print = (print ^ (unsigned char)*p) * UINT64_C(1099511628211);
	return ask(n->records, print, fn, arg);
}

void unknown_keys_init(struct records *r)
{
	list_init(&r->waiters);
	r->ask = loop_timer_new(r->node->config.loop, on_ask, r);
}

void unknown_keys_done(struct records *r)
{
	struct waiter *w;

	while ((w = list_first(&r->waiters, struct waiter, link))) {
		list_remove(&w->link);
		free(w);
	}
	loop_timer_free(r->ask);
}
