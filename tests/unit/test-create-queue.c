// SPDX-License-Identifier: Apache-2.0
/* The queue of creates that wait for room: who is served when, by count. */
#include "base/clock.h"
#include "tenant/create_queue.h"
#include "tenant/share.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define WAITERS 64

struct create {
	const char *project, *key;
	struct create_waiter *waiter;
	enum err_code refusal; /* of the next try, while the host has room */
	bool is_of_key;
	unsigned tries;
	size_t made_as; /* its number among those that were made; 0 = it was not */
	struct err end;
};

static struct loop *loop;
static struct shares *shares;
static struct create_queue *queue;
static struct create creates[WAITERS];
static size_t n_creates, n_made, room;

static bool has_room(void *arg)
{
	(void)arg;
	return room > 0;
}

static int make(void *arg, struct err *err)
{
	struct create *c = arg;

	c->tries++;
	if (c->refusal != ERR_NONE) {
		(void)err_set(err, c->refusal, 0, "not now");
		err->quota.is_of_key = c->is_of_key;
		return -EINVAL;
	}
	room--;
	c->made_as = ++n_made;
	c->waiter = NULL;
	return 0;
}

static void give_up(const struct err *err, void *arg)
{
	struct create *c = arg;

	c->end = *err;
	c->waiter = NULL;
}

static const struct create_waiter_ops ops = {make, give_up};

static void start(void)
{
	n_creates = n_made = room = 0;
	memset(creates, 0, sizeof(creates));
	CHECK_INT(loop_new(&loop, NULL), 0);
	shares = shares_new();
	queue = create_queue_new(&(struct create_queue_config){
		.loop = loop, .shares = shares, .has_room = has_room});
}

static void stop(void)
{
	create_queue_free(queue);
	shares_free(shares);
	loop_free(loop);
}

static int join_until(const char *project, const char *key, uint64_t until_us, struct err *err)
{
	struct create *c = &creates[n_creates++];
	struct err why;

	(void)err_set(&why, ERR_CAPACITY, 0, "the host is full");
	c->project = project;
	c->key = key;
	return create_queue_join(
		queue,
		&(struct create_wait){
			.project_id = project, .key_id = key, .until_us = until_us, .why = &why},
		&ops, c, &c->waiter, err);
}

static struct create *join(const char *project, const char *key)
{
	CHECK_INT(join_until(project, key, UINT64_MAX, NULL), 0);
	return &creates[n_creates - 1];
}

/* As if that many sandboxes had ended. */
static void free_room(size_t n)
{
	room += n;
	for (size_t i = 0; i < n; i++) {
		create_queue_look(queue);
		create_queue_settle(queue);
	}
}

TEST(the_creates_of_a_project_are_made_in_their_order)
{
	start();
	for (size_t i = 0; i < 4; i++)
		(void)join("prj_a", "key_a");
	CHECK_INT(create_waiter_position(creates[2].waiter), 3);
	free_room(1);
	CHECK_INT(n_made, 1);
	CHECK_INT(create_waiter_position(creates[2].waiter), 2);
	free_room(3);
	for (size_t i = 0; i < 4; i++)
		CHECK_INT(creates[i].made_as, i + 1);
	stop();
}

TEST(a_project_that_waits_with_many_delays_another_by_a_turn_or_two)
{
	struct create *one;

	start();
	for (size_t i = 0; i < 40; i++)
		(void)join("prj_greedy", "key_a");
	one = join("prj_b", "key_b");
	free_room(3);
	CHECK(one->made_as > 0);
	stop();
}

TEST(projects_are_served_by_their_weights)
{
	size_t heavy = 0;

	start();
	shares_set_weight(shares, "prj_heavy", 300);
	for (size_t i = 0; i < 24; i++) {
		(void)join("prj_heavy", "key_a");
		(void)join("prj_light", "key_b");
	}
	free_room(16);
	for (size_t i = 0; i < n_creates; i++)
		heavy += creates[i].made_as > 0 && strcmp(creates[i].project, "prj_heavy") == 0;
	CHECK_INT(n_made, 16);
	CHECK(heavy >= 11 && heavy <= 13);
	stop();
}

TEST(a_project_that_its_quota_stops_delays_nobody_and_keeps_its_order)
{
	struct create *first, *second, *other;

	start();
	first = join("prj_a", "key_a");
	second = join("prj_a", "key_a");
	other = join("prj_b", "key_b");
	first->refusal = ERR_QUOTA;
	free_room(2);
	CHECK(other->made_as > 0 && first->made_as == 0 && second->made_as == 0);
	CHECK_INT(second->tries, 0);
	first->refusal = ERR_NONE;
	free_room(1);
	CHECK_INT(first->made_as, 2);
	CHECK_INT(second->made_as, 3);
	stop();
}

TEST(a_key_that_its_own_quota_stops_lets_the_project_s_other_keys_go_first)
{
	struct create *stopped, *behind, *other;

	start();
	stopped = join("prj_a", "key_a");
	behind = join("prj_a", "key_a");
	other = join("prj_a", "key_b");
	stopped->refusal = ERR_QUOTA;
	stopped->is_of_key = true;
	free_room(1);
	CHECK_INT(other->made_as, 1);
	CHECK_INT(behind->tries, 0);
	CHECK_INT(create_waiter_position(stopped->waiter), 1);
	stop();
}

TEST(what_waiting_cannot_help_ends_at_once)
{
	struct create *bad, *next;

	start();
	bad = join("prj_a", "key_a");
	next = join("prj_a", "key_a");
	bad->refusal = ERR_NOT_FOUND;
	free_room(1);
	CHECK_INT(bad->end.code, ERR_NOT_FOUND);
	CHECK_INT(bad->end.quota.queue_position, 0);
	CHECK_INT(next->made_as, 1);
	stop();
}

TEST(who_leaves_is_not_tried_and_gives_its_place_up)
{
	struct create *gone, *next;

	start();
	gone = join("prj_a", "key_a");
	next = join("prj_a", "key_a");
	create_queue_leave(gone->waiter);
	CHECK_INT(create_waiter_position(next->waiter), 1);
	free_room(1);
	CHECK_INT(gone->tries, 0);
	CHECK_INT(next->made_as, 1);
	CHECK_INT(create_queue_figures(queue).waiting, 0);
	stop();
}

static void on_expired(struct loop *l, void *arg)
{
	(void)arg;
	loop_stop(l);
}

TEST(whose_time_is_over_is_told_why_and_where_it_stood)
{
	struct loop_timer *later;

	start();
	(void)join("prj_a", "key_a");
	CHECK_INT(join_until("prj_a", "key_a", clock_steady_us() + 1000, NULL), 0);
	later = loop_timer_new(loop, on_expired, NULL);
	loop_timer_set_in(later, 20000);
	CHECK_INT(loop_run(loop), 0);
	CHECK_INT(creates[1].end.code, ERR_CAPACITY);
	CHECK_INT(creates[1].end.quota.queue_position, 2);
	CHECK_INT(creates[1].end.quota.queue_waiting, 2);
	CHECK_INT(create_queue_figures(queue).expired, 1);
	CHECK_INT(create_queue_waiting(queue, "prj_a"), 1);
	loop_timer_free(later);
	stop();
}

static struct create flood[CREATE_WAITERS_MAX + 1];

static int join_flood(struct create *c, const char *project, struct err *err)
{
	struct err why;

	(void)err_set(&why, ERR_CAPACITY, 0, "the host is full");
	return create_queue_join(queue,
	                         &(struct create_wait){.project_id = project,
	                                               .key_id = "key_a",
	                                               .until_us = UINT64_MAX,
	                                               .why = &why},
	                         &ops, c, &c->waiter, err);
}

TEST(a_project_has_a_bound_and_keeps_nobody_else_out)
{
	struct create other = {0};
	struct err err;

	start();
	for (size_t i = 0; i < CREATE_WAITERS_MAX; i++)
		CHECK_INT(join_flood(&flood[i], "prj_a", NULL), 0);
	CHECK(join_flood(&flood[CREATE_WAITERS_MAX], "prj_a", &err) < 0);
	CHECK_INT(err.code, ERR_LIMIT);
	CHECK_INT(join_flood(&other, "prj_b", &err), 0);
	stop();
}

TEST(only_want_of_room_is_worth_a_wait)
{
	struct err err;

	(void)err_set(&err, ERR_QUOTA, 0, "full");
	CHECK(create_queue_helps(&err));
	err.quota.is_final = true;
	CHECK(!create_queue_helps(&err));
	(void)err_set(&err, ERR_BUDGET, 0, "spent");
	CHECK(!create_queue_helps(&err));
	(void)err_field(&err, "limits", "are bad");
	CHECK(!create_queue_helps(&err));
}
