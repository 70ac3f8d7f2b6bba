// SPDX-License-Identifier: Apache-2.0
/* What is left of something, as people are told. */
#include "base/remaining.h"
#include "test.h"

#define S UINT64_C(1000000)

TEST(nothing_is_told_before_there_is_something_to_tell_from)
{
	struct remaining r = {0};

	CHECK_INT(remaining_us(&r, 101 * S, 1 * S, 500, 1000), 0); /* too early */
	CHECK_INT(remaining_us(&r, 160 * S, 60 * S, 50, 1000), 0); /* too little */
	CHECK_INT(remaining_us(&r, 160 * S, 60 * S, 500, 0), 0);   /* of what? */
	CHECK_INT(remaining_us(&r, 160 * S, 60 * S, 500, 1000), 60 * S);
}

TEST(what_goes_evenly_counts_down)
{
	struct remaining r = {0};

	for (uint64_t s = 20; s < 100; s++) {
		uint64_t left = remaining_us(&r, (1000 + s) * S, s * S, s, 100);

		CHECK(left <= (100 - s) * S + 1000);
		CHECK(left + 1000 >= (100 - s) * S);
	}
}

/* Two steps of five take most of the time, as when packages are fetched: by the part that is done
 * the estimate jumps by minutes. */
TEST(the_estimate_does_not_jump_where_the_work_does)
{
	struct remaining r = {0};
	uint64_t before = 0;

	for (uint64_t s = 10; s < 300; s++) {
		uint64_t done = s < 60 ? 200 : s < 62 ? 600 : 700;
		uint64_t left = remaining_us(&r, (1000 + s) * S, s * S, done, 1000);
		uint64_t jump = left > before ? left - before : before - left;

		CHECK(left > 0);
		if (before > 0 && jump > before / 5)
			CHECK_INT(jump, before / 5);
		before = left;
	}
}

TEST(what_stands_still_is_never_told_to_be_over)
{
	struct remaining r = {0};

	for (uint64_t s = 10; s < 1000; s++)
		CHECK(remaining_us(&r, (1000 + s) * S, s * S, 999, 1000) >= 1 * S);
}
