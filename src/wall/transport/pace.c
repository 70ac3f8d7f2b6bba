// SPDX-License-Identifier: Apache-2.0
/*
 * The bucket holds a tenth of a second's worth. A waiter is called when there is a fortieth: less
 * would mean many small reads. A policy's rate is bounded (net/policy/policy_read.c), so no product
 * here overflows.
 */
#include "wall/transport/pace.h"

#include "base/units.h"

#define SECOND        ((int64_t)SECOND_US)
#define BURST_PART    10
#define BURST_MIN     INT64_C(1024)
#define WORTH_PART    40
#define SHARE         INT64_C(16384) /* of one in line, when there is enough for several */
#define TURN_DELAY_US UINT64_C(1000)

static int64_t burst_of(const struct pace *p)
{
	return MAX((int64_t)(p->per_second / BURST_PART), BURST_MIN);
}

static int64_t worth_of(const struct pace *p)
{
	return MAX((int64_t)(p->per_second / WORTH_PART), INT64_C(1));
}

static int64_t us_for(const struct pace *p, int64_t bytes)
{
	return bytes * SECOND / (int64_t)p->per_second + 1;
}

static void refill(struct pace *p)
{
	uint64_t now = loop_now_us(p->loop);
	int64_t passed_us = (int64_t)(now - p->at_us);
	int64_t lacking = burst_of(p) - p->bytes, come;

	if (passed_us >= us_for(p, lacking)) {
		p->bytes = burst_of(p);
		p->at_us = now;
		return;
	}
	come = passed_us * (int64_t)p->per_second / SECOND;
	if (come == 0)
		return;
	p->bytes += come;
	p->at_us += (uint64_t)(come * SECOND / (int64_t)p->per_second);
}

/* Calls the waiters that get something; the rest stay in line. */
static void call_first(struct pace *p)
{
	int64_t n = p->per_second == 0 ? INT64_MAX : 1 + p->bytes / SHARE;
	struct pace_turn *t;

	while (n-- > 0 && (t = list_first(&p->line, struct pace_turn, link))) {
		list_remove(&t->link);
		t->fn(t->arg);
	}
}

static void set_timer(struct pace *p)
{
	int64_t lacking = worth_of(p) - p->bytes;

	if (list_empty(&p->line))
		loop_timer_set(p->timer, UINT64_MAX);
	else
		loop_timer_set_in(p->timer,
		                  lacking <= 0 ? TURN_DELAY_US : (uint64_t)us_for(p, lacking));
}

static void on_timer(struct loop *loop, void *arg)
{
	struct pace *p = arg;

	(void)loop;
	if (p->per_second > 0)
		refill(p);
	if (p->per_second == 0 || p->bytes >= worth_of(p))
		call_first(p);
	set_timer(p);
}

void pace_init(struct pace *p, struct loop *loop, uint64_t per_second)
{
	*p = (struct pace){.loop = loop, .per_second = per_second, .at_us = loop_now_us(loop)};
	list_init(&p->line);
	p->timer = loop_timer_new(loop, on_timer, p);
	p->bytes = burst_of(p);
}

void pace_done(struct pace *p)
{
	loop_timer_free(p->timer);
}

void pace_set(struct pace *p, uint64_t per_second)
{
	if (p->per_second == per_second)
		return;
	p->per_second = per_second;
	p->at_us = loop_now_us(p->loop);
	p->bytes = MIN(p->bytes, burst_of(p));
	p->bytes = MAX(p->bytes, INT64_C(0)); /* a debt of the old rate may take the new one long */
	if (!list_empty(&p->line))
		loop_timer_set_in(p->timer, 0);
}

size_t pace_allow(struct pace *p, size_t wanted)
{
	if (p->per_second == 0)
		return wanted;
	refill(p);
	if (p->bytes < MIN(worth_of(p), (int64_t)wanted))
		return 0;
	return MIN(wanted, (size_t)p->bytes);
}

void pace_spend(struct pace *p, size_t n)
{
	if (p->per_second > 0)
		p->bytes -= (int64_t)n;
}

void pace_turn_init(struct pace_turn *t, void (*fn)(void *arg), void *arg)
{
	*t = (struct pace_turn){.fn = fn, .arg = arg};
	list_init(&t->link);
}

void pace_wait(struct pace *p, struct pace_turn *t)
{
	if (pace_is_waiting(t))
		return;
	list_append(&p->line, &t->link);
	if (!loop_timer_is_set(p->timer))
		set_timer(p);
}

bool pace_is_waiting(const struct pace_turn *t)
{
	return !list_empty(&t->link);
}

void pace_leave(struct pace_turn *t)
{
	list_remove(&t->link);
}
