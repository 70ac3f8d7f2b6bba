// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/id.h"
#include "base/units.h"
#include "cluster/fence.h"
#include "cluster/lease.h"
#include "cluster/placement.h"
#include "cluster/route.h"
#include "cluster/tag.h"
#include "cluster/watch.h"

#include <string.h>

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % below;
}

/* Tags */

TEST(a_tag_is_read_from_an_id_with_and_without_its_kind)
{
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t tag = (uint32_t)draw(TAG_COUNT);
		char id[ID_SIZE];

		id_make(id, i % 2 ? "sb" : "snapshot");
		tag_put(id, tag);
		CHECK(id_is_valid(id, i % 2 ? "sb" : "snapshot"));
		CHECK_INT(tag_of(id), tag);
		CHECK_INT(tag_of(strchr(id, '_') + 1), tag);
	}
}

TEST(what_is_no_id_has_no_tag)
{
	static const char *const texts[] = {"",
	                                    "sb_",
	                                    "sb_aaaa",
	                                    "aaaaaaaaaaaaaaaaaaaaaaaaa",
	                                    "sb_aaaaaaaaaaaaaaaaaaaaaaaaaaa",
	                                    "sb_aaaaaaaaaaaaaaaaaaaaaaaaa0",
	                                    "sb_Aaaaaaaaaaaaaaaaaaaaaaaaaa",
	                                    "sb_sb_aaaaaaaaaaaaaaaaaaaaaaaaaa",
	                                    "sb_aaa/aaaaaaaaaaaaaaaaaaaaaa"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_INT(tag_of(texts[i]), -1);
}

TEST(a_tag_belongs_to_one_node_and_a_bad_map_changes_nothing)
{
	struct tag_map map = {0};
	struct tag_row rows[] = {{700, 3}, {5, 1}, {TAG_COUNT - 1, 2}}, twice[] = {{5, 1}, {5, 2}},
		       nobody[] = {{5, 0}}, none[] = {{TAG_COUNT, 1}};

	CHECK_INT(tag_map_find(&map, 5), 0);
	CHECK_INT(tag_map_set(&map, rows, ARRAY_SIZE(rows)), 0);
	CHECK_INT(tag_map_set(&map, twice, ARRAY_SIZE(twice)), -EEXIST);
	CHECK_INT(tag_map_set(&map, nobody, 1), -EINVAL);
	CHECK_INT(tag_map_set(&map, none, 1), -EINVAL);
	CHECK_INT(tag_map_find(&map, 5), 1);
	CHECK_INT(tag_map_find(&map, 700), 3);
	CHECK_INT(tag_map_find(&map, TAG_COUNT - 1), 2);
	CHECK_INT(tag_map_find(&map, 6), 0);
	tag_map_done(&map);
}

/* Routes */

#define NODES 6

/* A cluster as one id sees it: caches may say anything; tag's node and directory are right. */
struct world {
	uint32_t owner, tagged; /* owner 0: it has ended */
	uint32_t cached[NODES + 1];
	bool is_dead[NODES + 1];
};

static bool is_alive(uint32_t node, void *arg)
{
	return !((struct world *)arg)->is_dead[node];
}

static struct route_facts facts_of(struct world *w, uint32_t node, uint32_t from, bool may_redirect)
{
	uint32_t forward = w->cached[node];

	if (node == w->tagged)
		forward = w->owner != node ? w->owner : 0;
	return (struct route_facts){.self = node,
	                            .hop_from = from,
	                            .tagged = w->tagged,
	                            .forward = forward,
	                            .is_own = w->owner == node,
	                            .may_redirect = may_redirect,
	                            .is_alive = is_alive,
	                            .arg = w};
}

struct journey {
	enum route_step end;
	uint32_t node; /* where it ended */
	unsigned hops, asked, redirects;
};

static struct journey travel(struct world *w, uint32_t origin, bool may_redirect)
{
	struct journey j = {.node = origin};
	struct route_facts f = facts_of(w, origin, 0, may_redirect);
	struct route r = {0};
	uint32_t node = 0;

	j.end = route_first(&r, &f, &node);
	for (;;) {
		struct route_facts at;
		uint32_t named = 0;

		switch (j.end) {
		case ROUTE_REDIRECT:
			j.redirects++;
			CHECK(j.redirects < 3);
			origin = j.node = node;
			f = facts_of(w, origin, 0, may_redirect);
			r = (struct route){0};
			j.end = route_first(&r, &f, &node);
			continue;
		case ROUTE_ASK:
			j.asked++;
			j.end = route_told(&r, &f, w->owner, &node);
			continue;
		case ROUTE_HOP:
			break;
		case ROUTE_HERE:
		case ROUTE_MOVED:
		case ROUTE_NOT_FOUND:
		case ROUTE_UNREACHABLE:
		case ROUTE_LOOP:
			return j;
		}
		j.hops++;
		CHECK(j.hops <= ROUTE_HOPS_MAX);
		CHECK(node != origin && !w->is_dead[node]);
		at = facts_of(w, node, origin, may_redirect);
		switch (route_first(&(struct route){0}, &at, &named)) {
		case ROUTE_HERE:
			j.end = ROUTE_HERE;
			j.node = node;
			return j;
		case ROUTE_MOVED:
			j.end = route_answered(&r, &f, ROUTE_ANSWER_MOVED, named, &node);
			break;
		case ROUTE_NOT_FOUND:
			j.end = route_answered(&r, &f, ROUTE_ANSWER_NOT_FOUND, 0, &node);
			break;
		case ROUTE_HOP:
		case ROUTE_REDIRECT:
		case ROUTE_ASK:
		case ROUTE_UNREACHABLE:
		case ROUTE_LOOP:
			CHECK_INT(j.end, ROUTE_HERE); /* a hop is answered, and not passed on */
		}
	}
}

TEST(a_call_finds_its_sandbox_whatever_caches_say)
{
	for (int i = 0; i < 200000; i++) {
		struct world w = {.owner = (uint32_t)draw(NODES + 1),
		                  .tagged = (uint32_t)draw(NODES + 1)};
		uint32_t origin = 1 + (uint32_t)draw(NODES);
		struct journey j;

		for (uint32_t n = 1; n <= NODES; n++) {
			w.cached[n] = draw(2) ? (uint32_t)draw(NODES + 1) : 0;
			w.is_dead[n] = n != origin && draw(4) == 0;
		}
		j = travel(&w, origin, draw(2));
		CHECK(j.redirects <= 1);
		CHECK(j.asked <= 1);
		if (w.owner && !w.is_dead[w.owner]) {
			CHECK_INT(j.end, ROUTE_HERE);
			CHECK_INT(j.node, w.owner);
		} else {
			CHECK_INT(j.end, w.owner ? ROUTE_UNREACHABLE : ROUTE_NOT_FOUND);
		}
	}
}

TEST(a_fresh_call_needs_one_hop_and_no_question)
{
	struct world w = {.owner = 2, .tagged = 2};
	struct journey j = travel(&w, 1, false);

	CHECK_INT(j.end, ROUTE_HERE);
	CHECK_INT(j.hops, 1);
	CHECK_INT(j.asked, 0);
}

TEST(a_hop_that_comes_back_is_refused)
{
	struct world w = {.owner = 2, .tagged = 2};
	struct route_facts f = facts_of(&w, 1, 1, false);
	uint32_t node;

	CHECK_INT(route_first(&(struct route){0}, &f, &node), ROUTE_LOOP);
}

TEST(a_redirect_leads_to_the_tags_node_alone)
{
	struct world w = {.owner = 3, .tagged = 2, .cached = {[1] = 0}};
	struct route_facts f = facts_of(&w, 1, 0, true);
	uint32_t node = 0;

	CHECK_INT(route_first(&(struct route){0}, &f, &node), ROUTE_REDIRECT);
	CHECK_INT(node, 2);
	f = facts_of(&w, 2, 0, true); /* which knows better and passes it on itself */
	CHECK_INT(route_first(&(struct route){0}, &f, &node), ROUTE_HOP);
	CHECK_INT(node, 3);
}

TEST(nobody_is_asked_twice_when_nodes_do_not_answer)
{
	struct world w = {.owner = 2, .tagged = 2};
	struct route_facts f = facts_of(&w, 1, 0, false);
	struct route r = {0};
	uint32_t node = 0;

	CHECK_INT(route_first(&r, &f, &node), ROUTE_HOP);
	CHECK_INT(route_answered(&r, &f, ROUTE_ANSWER_FAILED, 0, &node), ROUTE_ASK);
	CHECK_INT(route_told(&r, &f, 2, &node), ROUTE_UNREACHABLE);
}

/* Placement */

static struct placement_node node_of(uint32_t number, uint64_t committed)
{
	return (struct placement_node){.node = number,
	                               .abilities = 1,
	                               .figures = {.version = 1,
	                                           .capacity = {1000, 1000, 1000},
	                                           .committed = {committed, 0, 0}},
	                               .has_spare = true,
	                               .has_image = true,
	                               .has_lease = true};
}

static const struct placement_need small = {.of = {10, 10, 10}, .abilities = 1};

static uint32_t choose(const struct placement_node *self, const struct placement_view *view,
                       const struct placement_need *need)
{
	return placement_choose(&placement_usual, self, view, need, NULL, 0,
	                        draw(UINT64_C(1) << 31));
}

static struct placement_view view_of(unsigned n, uint64_t committed)
{
	struct placement_view v = {.n = n};

	for (unsigned i = 0; i < n; i++)
		v.nodes[i] = node_of(i + 2, committed);
	return v;
}

TEST(a_create_stays_until_its_node_is_five_points_above_the_others)
{
	struct placement_view v = view_of(PLACEMENT_SAMPLE, 500);
	struct placement_node level = node_of(1, 550), above = node_of(1, 551);

	CHECK_INT(choose(&level, &v, &small), 1);
	CHECK(choose(&above, &v, &small) != 1);
}

TEST(a_node_that_cannot_take_it_is_never_chosen)
{
	for (int i = 0; i < 20000; i++) {
		struct placement_view v = view_of((unsigned)draw(PLACEMENT_SAMPLE + 1), 0);
		struct placement_node self = node_of(1, draw(1100));
		struct placement_need need = {.of = {draw(200), draw(200), draw(200)},
		                              .abilities = draw(4)};
		uint32_t tried[PLACEMENT_TRIES_MAX] = {1 + (uint32_t)draw(17),
		                                       1 + (uint32_t)draw(17)},
			 to;
		unsigned n_tried = (unsigned)draw(3);
		bool somebody = false;

		if (draw(4) == 0)
			need.only_node = 1 + (uint32_t)draw(17);
		self.is_cordoned = draw(4) == 0;
		self.abilities = draw(4);
		for (unsigned k = 0; k < v.n; k++) {
			v.nodes[k].figures.committed[draw(3)] = draw(1100);
			v.nodes[k].under_way[draw(3)] = draw(2) * draw(500);
			v.nodes[k].is_cordoned = draw(4) == 0;
			v.nodes[k].abilities = draw(4);
		}
		to = placement_choose(&placement_usual, &self, &v, &need, tried, n_tried,
		                      draw(1U << 30));
		for (unsigned k = 0; k <= v.n; k++) {
			const struct placement_node *n = k < v.n ? &v.nodes[k] : &self;
			bool may = placement_fits(n, &need);

			for (unsigned t = 0; t < n_tried; t++)
				may &= tried[t] != n->node;
			somebody |= may;
			CHECK(to != n->node || may);
		}
		CHECK_INT(to != 0, somebody);
	}
}

TEST(a_cordoned_node_takes_nothing_not_even_its_own)
{
	struct placement_view v = view_of(2, 500);
	struct placement_node self = node_of(1, 0);

	self.is_cordoned = v.nodes[0].is_cordoned = true;
	CHECK_INT(choose(&self, &v, &small), 3);
	v.nodes[1].is_cordoned = true;
	CHECK_INT(choose(&self, &v, &small), 0);
}

TEST(of_two_the_emptier_is_taken_and_every_node_gets_its_turn)
{
	struct placement_view v = view_of(4, 300);
	struct placement_node self = node_of(1, 990);
	unsigned got[8] = {0};

	v.nodes[0].figures.committed[0] = 900; /* the fullest loses against every other */
	for (int i = 0; i < 4000; i++)
		got[choose(&self, &v, &small)]++;
	CHECK_INT(got[2], 0);
	CHECK(got[3] > 1000 && got[4] > 1000 && got[5] > 1000);
}

TEST(spares_images_leases_and_spread_count_a_little)
{
	struct placement_node plain = node_of(1, 500);
	uint32_t score = placement_score(&placement_usual, &plain, &small);
	struct placement_node cold = plain, bare = plain, poor = plain, crowded = plain;

	cold.has_spare = bare.has_image = poor.has_lease = false;
	crowded.above_even = 1000;
	CHECK_INT(placement_score(&placement_usual, &cold, &small),
	          score + placement_usual.no_spare);
	CHECK_INT(placement_score(&placement_usual, &bare, &small),
	          score + placement_usual.no_image);
	CHECK_INT(placement_score(&placement_usual, &poor, &small), score + placement_usual.lease);
	CHECK_INT(placement_score(&placement_usual, &crowded, &small),
	          score + placement_usual.spread_max);
}

TEST(what_is_under_way_counts_until_its_answer_which_brings_newer_figures)
{
	struct placement_view v = view_of(1, 100);
	struct placement_figures newer = {
		.version = 5, .capacity = {1000, 1000, 1000}, .committed = {110, 10, 10}};
	struct placement_node old = node_of(2, 100);
	uint32_t before = placement_score(&placement_usual, &v.nodes[0], &small);

	placement_sent(&v, 2, &small);
	placement_sent(&v, 99, &small); /* not in the view */
	CHECK(placement_score(&placement_usual, &v.nodes[0], &small) > before);
	placement_sampled(&v, &old, 1); /* figures from before it was sent */
	CHECK_INT(v.nodes[0].under_way[0], 10);
	placement_answered(&v, 2, &small, &newer);
	CHECK_INT(v.nodes[0].under_way[0], 0);
	placement_sampled(&v, &old, 1);
	CHECK_INT(v.nodes[0].figures.committed[0], 110);
}

/* Leases */

TEST(only_what_is_held_is_spent)
{
	struct lease l = {0};
	struct lease_call call;

	CHECK_INT(lease_take(&l, 1), -EAGAIN);
	lease_want(&l, 8);
	CHECK(lease_next(&l, 0, &call));
	CHECK_INT(call.least, 8);
	CHECK_INT(call.total, 9);
	CHECK(!lease_next(&l, 0, &call)); /* one at a time */
	CHECK_INT(lease_take(&l, 1), -EAGAIN);
	CHECK(lease_answered(&l, call.number, 8));
	CHECK_INT(lease_take(&l, 8), 0);
	CHECK_INT(lease_take(&l, 1), -EAGAIN);
}

TEST(what_is_idle_for_thirty_seconds_goes_back_and_no_more)
{
	struct lease l = {.amount = 10};
	struct lease_call call;

	l.idle_amount = 10;
	CHECK_INT(lease_take(&l, 6), 0);
	lease_give(&l, 4);
	CHECK(!lease_next(&l, LEASE_IDLE_US - 1, &call));
	CHECK(lease_next(&l, LEASE_IDLE_US, &call));
	CHECK_INT(call.total, 6); /* six were needed within the time, though two are now */
	CHECK_INT(l.amount, 6);   /* from before the call is sent */
}

TEST(a_recall_takes_all_that_is_not_spent)
{
	struct lease l = {.amount = 10, .spent = 3};
	struct lease_call call;

	lease_recall(&l);
	CHECK(lease_next(&l, 0, &call));
	CHECK_INT(call.total, 3);
}

TEST(a_call_without_answer_is_made_again_under_a_new_number)
{
	struct lease l = {.amount = 5, .spent = 5};
	struct lease_call first, second;

	lease_want(&l, 1);
	CHECK(lease_next(&l, 0, &first));
	lease_failed(&l, first.number);
	CHECK(lease_next(&l, 0, &second));
	CHECK(second.number > first.number);
	CHECK_INT(second.total, 5);
	CHECK(!lease_answered(&l, first.number, 6)); /* the old one's comes late */
	CHECK_INT(l.amount, 5);
}

TEST(what_exists_already_is_borrowed_until_the_lease_covers_it)
{
	struct lease l = {.amount = 1};
	struct lease_call call;

	lease_force(&l, 4);
	CHECK_INT(lease_borrowed(&l), 3);
	CHECK_INT(lease_take(&l, 1), -EAGAIN);
	CHECK(lease_next(&l, 0, &call));
	CHECK_INT(call.least, 4);
	CHECK(lease_answered(&l, call.number, 4));
	CHECK_INT(lease_borrowed(&l), 0);
}

TEST(taking_a_sandbox_over_voids_the_call_that_is_under_way)
{
	struct lease l = {.amount = 5, .spent = 5};
	struct lease_call call;
	uint64_t number;

	lease_want(&l, 1);
	CHECK(lease_next(&l, 0, &call));
	number = lease_own(&l);
	CHECK(number > call.number);
	CHECK(!lease_answered(&l, call.number, 6));
	CHECK(lease_answered(&l, number, 9));
	lease_force(&l, 4);
	CHECK_INT(lease_borrowed(&l), 0);
}

/* A row of the database that takes a numbered call now, later or never, and whose answers are lost.
 */
TEST(a_node_never_knows_more_than_its_row_has)
{
	for (int run = 0; run < 2000; run++) {
		struct lease l = {0};
		struct lease_call flying[4];
		unsigned n_flying = 0;
		uint64_t row = 0, taken = 0, now = 0;

		for (int step = 0; step < 60; step++) {
			struct lease_call call;
			uint64_t n = 1 + draw(4);

			now += draw(20) * SECOND_US;
			if (draw(2) && lease_take(&l, n) < 0)
				lease_want(&l, n);
			if (draw(2) && l.spent > 0)
				lease_give(&l, 1 + draw(l.spent));
			if (draw(8) == 0)
				lease_recall(&l);
			if (n_flying < ARRAY_SIZE(flying) && lease_next(&l, now, &call))
				flying[n_flying++] = call;
			if (n_flying > 0 && draw(2)) {
				unsigned at = (unsigned)draw(n_flying);

				call = flying[at];
				flying[at] = flying[--n_flying];
				if (call.number > taken) {
					taken = call.number;
					row = MIN(call.total, 20);
					if (draw(4))
						(void)lease_answered(&l, call.number, row);
				}
			}
			if (draw(4) == 0)
				lease_failed(&l, l.number);
			CHECK(l.amount <= row);
			CHECK(l.spent <= l.amount);
		}
	}
}

/* Fences */

TEST(a_right_counts_from_when_the_answered_beat_was_sent)
{
	const struct fence_rules *rules = &fence_usual;
	struct fence f = {0};
	uint64_t number = fence_send(&f, 100 * SECOND_US);

	CHECK_INT(fence_state(&f, rules, 100 * SECOND_US), FENCE_OUT);
	CHECK(fence_joined(&f, number, 7)); /* whenever the answer comes */
	CHECK_INT(fence_state(&f, rules, 106 * SECOND_US - 1), FENCE_HELD);
	CHECK_INT(fence_state(&f, rules, 106 * SECOND_US), FENCE_FENCED);
	CHECK_INT(fence_until(&f, rules, 105 * SECOND_US), 106 * SECOND_US);
	CHECK_INT(fence_state(&f, rules, 390 * SECOND_US - 1), FENCE_FENCED);
	CHECK_INT(fence_state(&f, rules, 390 * SECOND_US), FENCE_LOST); /* ten seconds to end all */
	CHECK_INT(fence_until(&f, rules, 107 * SECOND_US), 390 * SECOND_US);
}

TEST(the_answer_of_an_older_beat_gives_no_right)
{
	struct fence f = {0};
	uint64_t first = fence_send(&f, 0), second = fence_send(&f, 1);

	CHECK(!fence_joined(&f, first, 1));
	CHECK(fence_joined(&f, second, 1));
	CHECK(!fence_answered(&f, second)); /* once */
}

TEST(a_refused_epoch_stands_still_until_the_next_join)
{
	struct fence f = {0};
	uint64_t number = fence_send(&f, 0);

	CHECK(fence_joined(&f, number, 1));
	fence_refused(&f);
	CHECK_INT(fence_state(&f, &fence_usual, 1), FENCE_OUT);
	number = fence_send(&f, 2);
	CHECK(!fence_answered(&f, number)); /* a beat is not enough */
	CHECK(fence_joined(&f, number, 2));
	CHECK_INT(fence_state(&f, &fence_usual, 3), FENCE_HELD);
}

TEST(where_the_clocks_part_the_right_is_gone_until_a_later_beat_is_answered)
{
	struct fence f = {0};
	uint64_t number = fence_send(&f, SECOND_US), late;

	CHECK(fence_joined(&f, number, 1));
	fence_look(&f, &fence_usual, SECOND_US, 50 * SECOND_US);
	late = fence_send(&f, SECOND_US);
	fence_look(&f, &fence_usual, 2 * SECOND_US, 51 * SECOND_US);
	CHECK_INT(fence_state(&f, &fence_usual, 2 * SECOND_US), FENCE_HELD);
	fence_look(&f, &fence_usual, 2 * SECOND_US,
	           61 * SECOND_US); /* ten seconds in which it stood */
	CHECK_INT(fence_state(&f, &fence_usual, 2 * SECOND_US), FENCE_FENCED);
	CHECK(!fence_answered(&f, late));
	CHECK(fence_answered(&f, fence_send(&f, 3 * SECOND_US)));
	CHECK_INT(fence_state(&f, &fence_usual, 3 * SECOND_US), FENCE_HELD);
}

TEST(without_a_right_calls_go_on_and_nothing_is_agreed)
{
	static const struct {
		enum fence_state state;
		bool serves, agrees, is_exclusive;
	} rows[] = {
		{FENCE_OUT, true, false, false},
		{FENCE_HELD, true, true, true},
		{FENCE_FENCED, true, false, false},
		{FENCE_LOST, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(fence_allows(rows[i].state, FENCE_SERVE), rows[i].serves);
		CHECK_INT(fence_allows(rows[i].state, FENCE_AGREE), rows[i].agrees);
		CHECK_INT(fence_allows(rows[i].state, FENCE_EXCLUSIVE), rows[i].is_exclusive);
	}
}

TEST(a_silent_node_is_claimed_after_its_right_and_a_margin)
{
	struct watch w = {0};

	CHECK(!watch_may_claim(&w, &fence_usual, UINT64_MAX));
	watch_saw(&w, 4, 1, 9, 1, 10 * SECOND_US);
	watch_saw(&w, 4, 1, 9, 1, 12 * SECOND_US); /* the same again */
	CHECK(!watch_may_claim(&w, &fence_usual, 17 * SECOND_US - 1));
	CHECK(watch_may_claim(&w, &fence_usual, 17 * SECOND_US));
	CHECK(!watch_is_lost(&w, &fence_usual, 311 * SECOND_US - 1));
	CHECK(watch_is_lost(&w, &fence_usual, 311 * SECOND_US));
}

TEST(a_new_beat_epoch_or_server_begins_the_count_again)
{
	const struct watch seen = {.node = 4, .epoch = 1, .number = 9, .server = 1, .since_us = 0};
	const struct watch others[] = {{5, 1, 9, 1, 0},
	                               {4, 2, 9, 1, 0},
	                               {4, 1, 10, 1, 0},
	                               {4, 1, 9, 2, 0},
	                               {4, 1, 8, 1, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct watch w = seen;

		watch_saw(&w, others[i].node, others[i].epoch, others[i].number, others[i].server,
		          20 * SECOND_US);
		CHECK(!watch_may_claim(&w, &fence_usual, 20 * SECOND_US));
		CHECK(watch_may_claim(&w, &fence_usual, 27 * SECOND_US));
	}
}
