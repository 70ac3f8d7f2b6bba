// SPDX-License-Identifier: Apache-2.0
/*
 * Clusters under a virtual clock (tests/cluster): what the design promises holds through bad days,
 * and each rule that keeps it is needed: without it the same days break an invariant.
 */
#include "test.h"
#include "world.h"

#include "base/units.h"

#include <stdio.h>

static uint64_t broken_with(const struct world_options *o)
{
	struct world_report r;
	uint64_t n;

	world_run(o, &r);
	n = world_broken(&r);
	if (n && o->breakage == BREAK_NOTHING)
		print_message("seed %lu: %s\n", (unsigned long)o->seed, r.first);
	world_report_done(&r);
	return n;
}

TEST(no_invariant_breaks_while_nodes_die_links_are_cut_and_the_database_fails_over)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct world_options o = world_usual;

		o.seed = seed;
		o.has_faults = true;
		o.late_of = seed % 2 ? 5 : 100;
		o.nodes = seed % 3 ? 20 : 5;
		CHECK_INT(broken_with(&o), 0);
	}
}

/* The positive control: an invariant that cannot fail says nothing. */
TEST(every_rule_is_needed)
{
	for (int rule = BREAK_NOTHING + 1; rule < BREAK_COUNT; rule++) {
		struct world_options o = world_usual;
		uint64_t found = 0;

		o.breakage = (enum breakage)rule;
		o.has_faults = true;
		o.late_of = 5;
		if (rule ==
		    BREAK_SENT) /* late answers count for as long as no newer beat is sent */
			o.fence.beat_us = 4 * SECOND_US;
		for (o.seed = 1; o.seed <= 30 && !found; o.seed++)
			found = broken_with(&o);
		print_message("without the rule `%s` an invariant breaks with seed %lu\n",
		              breakage_names[rule], (unsigned long)o.seed - 1);
		CHECK(found > 0);
	}
}

TEST(a_run_follows_from_its_seed)
{
	struct world_options o = world_usual;
	struct world_report a, b;

	o.has_faults = true;
	o.seconds = 100;
	world_run(&o, &a);
	world_run(&o, &b);
	CHECK_INT(a.steps, b.steps);
	CHECK_INT(a.made, b.made);
	o.seed = 2;
	world_report_done(&b);
	world_run(&o, &b);
	CHECK(a.steps != b.steps);
	world_report_done(&a);
	world_report_done(&b);
}

/* The bounds are some points above what was seen with twenty seeds. */
TEST(a_full_cluster_is_even_and_proxies_a_third_at_most)
{
	struct world_options o = world_usual;
	struct world_report r;

	o.nodes = 100;
	o.projects = 50;
	o.live = 20000;
	o.life = 300;
	o.seconds = 300;
	world_run(&o, &r);
	CHECK_INT(world_broken(&r), 0);
	CHECK(r.fullest < 960);
	CHECK(r.proxied * 3 < r.made);
	CHECK(r.no_room * 1000 < r.creates);
	CHECK(r.refused_full * 100 < r.creates);
	world_report_done(&r);
}

/* Who would take the emptiest of all known nodes, and never stay, sends more and gains nothing. */
TEST(staying_unless_worse_off_proxies_less_than_always_choosing)
{
	struct world_options o = world_usual;
	struct world_report local, always;

	o.nodes = 100;
	o.projects = 50;
	o.live = 10000;
	o.seconds = 200;
	world_run(&o, &local);
	o.placement.tolerance = 0;
	o.placement.choices = PLACEMENT_SAMPLE;
	world_run(&o, &always);
	CHECK(local.proxied * 3 < always.proxied * 2);
	world_report_done(&local);
	world_report_done(&always);
}

TEST(a_dead_node_is_claimed_within_ten_seconds_while_the_database_lives)
{
	struct world_options o = world_usual;
	struct world_report r;

	o.has_faults = true;
	o.late_of = 1000000;
	o.nodes = 40;
	o.seconds = 2000;
	world_run(&o, &r);
	CHECK_INT(world_broken(&r), 0);
	CHECK(r.claims_of_dead > 10);
	CHECK(r.claim_us_sum / r.claims_of_dead < 10 * SECOND_US);
	world_report_done(&r);
}
