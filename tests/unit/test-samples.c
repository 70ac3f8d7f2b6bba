// SPDX-License-Identifier: Apache-2.0
#include "sandbox/usage/samples.h"
#include "test.h"

static void add(struct samples **s, uint64_t at_us)
{
	samples_add(s, &(struct sandbox_sample){.at_us = at_us, .cpu_ns = at_us * 2}, 10);
}

TEST(the_last_samples_stay_in_their_order)
{
	struct samples *s = NULL;

	CHECK_INT(samples_count(s), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		add(&s, i * 10);
	CHECK_INT(samples_count(s), 120);
	CHECK_INT(samples_at(s, 0)->at_us, 8810);
	CHECK_INT(samples_at(s, 119)->at_us, 10000);
	CHECK_INT(samples_at(s, 119)->cpu_ns, 20000);
	samples_free(s);
}

TEST(who_asks_often_pushes_no_sample_out)
{
	struct samples *s = NULL;

	for (uint64_t i = 100; i < 120; i++)
		add(&s, i);
	CHECK_INT(samples_count(s), 2);
	add(&s, 50); /* the clock was put back */
	CHECK_INT(samples_count(s), 3);
	samples_free(s);
}
