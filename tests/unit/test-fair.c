// SPDX-License-Identifier: Apache-2.0
/* The fair queue: who is served when, by count. */
#include "base/fair.h"
#include "test.h"

#define QUANTUM 10

struct item {
	struct list link;
	int64_t cost;
};

static struct fair_queue queue;
static struct fair_share a, b;
static struct item items[4096];
static size_t n_items;

static void start(uint32_t weight_a, uint32_t weight_b)
{
	n_items = 0;
	fair_queue_init(&queue, QUANTUM);
	fair_share_init(&a, weight_a);
	fair_share_init(&b, weight_b);
}

static void push(struct fair_share *s, size_t count, int64_t cost)
{
	for (size_t i = 0; i < count; i++) {
		struct item *item = &items[n_items++];

		list_init(&item->link);
		item->cost = cost;
		fair_push(&queue, s, &item->link);
	}
}

/* Serves one. */
static struct fair_share *serve(void)
{
	struct fair_share *s = NULL;
	struct list *item = fair_next(&queue, &s);

	if (item)
		fair_charge(&queue, s, list_entry(item, struct item, link)->cost);
	return s;
}

static size_t count_served(const struct fair_share *wanted, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += serve() == wanted;
	return n;
}

TEST(each_share_s_items_come_in_their_order)
{
	struct fair_share *s;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 3, 1);
	for (size_t i = 0; i < 3; i++)
		CHECK(fair_next(&queue, &s) == &items[i].link);
	CHECK(fair_next(&queue, &s) == NULL);
}

TEST(two_that_always_wait_get_the_same)
{
	size_t n;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 1000, 1);
	push(&b, 1000, 1);
	n = count_served(&a, 1000);
	CHECK(n >= 490 && n <= 510);
}

TEST(a_weight_of_three_gets_three_times_as_much)
{
	size_t n;

	start(3 * FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 1000, 1);
	push(&b, 1000, 1);
	n = count_served(&a, 800);
	CHECK(n >= 580 && n <= 620);
}

TEST(cost_counts_and_not_the_number_of_items)
{
	size_t n;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 1000, 9);
	push(&b, 1000, 1);
	n = count_served(&a, 500);
	CHECK(n >= 40 && n <= 60);
}

TEST(one_item_does_not_wait_behind_a_flood)
{
	size_t before = 0;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 1000, 1);
	(void)count_served(&a, 100);
	for (int i = 0; i < 20; i++) {
		push(&b, 1, 1);
		while (serve() == &a)
			before++;
	}
	CHECK(before <= 20 + QUANTUM);
}

TEST(who_comes_again_and_again_does_not_starve_who_waits)
{
	size_t n = 0;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 100, QUANTUM);
	for (int i = 0; i < 200; i++) {
		push(&b, 1, QUANTUM);
		n += serve() == &a;
	}
	CHECK(n >= 90);
}

TEST(one_alone_is_served_at_once_and_owes_nothing_for_it)
{
	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 1000, 50 * QUANTUM);
	CHECK_INT(count_served(&a, 1000), 1000);
	CHECK(serve() == NULL);
	push(&a, 100, 1);
	push(&b, 100, 1);
	CHECK(count_served(&a, 60) >= 20);
}

TEST(one_costly_item_does_not_shut_its_share_out)
{
	size_t turns = 0;

	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&b, 1000, 1);
	push(&a, 1, INT64_C(1) << 40);
	push(&a, 1, 1);
	while (serve() != &a)
		turns++;
	while (serve() != &a)
		turns++;
	CHECK(turns < 500);
}

TEST(an_item_that_is_taken_out_and_a_share_that_goes_are_not_served)
{
	start(FAIR_WEIGHT, FAIR_WEIGHT);
	push(&a, 2, 1);
	push(&b, 2, 1);
	list_remove(&items[0].link);
	fair_share_done(&b);
	CHECK(fair_has_items(&queue));
	CHECK(serve() == &a);
	CHECK(!fair_has_items(&queue));
	CHECK(serve() == NULL);
}
