// SPDX-License-Identifier: Apache-2.0
/* Deadlines of calls, as the next gateway finds them. */
#include "test.h"

#include "sandbox/deadline.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define ONE "ctx_11111111111111111111111111"
#define TWO "ctx_22222222222222222222222222"

static char path[] = "/tmp/test-deadline.XXXXXX";

static struct deadlines *open_again(struct deadlines *d)
{
	struct err err;

	deadlines_close(d);
	CHECK_INT(deadlines_open(path, &d, &err), 0);
	return d;
}

static struct deadlines *open_new(void)
{
	int fd;

	(void)memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	(void)close(fd);
	return open_again(NULL);
}

static void end(struct deadlines *d)
{
	deadlines_close(d);
	(void)unlink(path);
}

TEST(a_deadline_is_found_by_the_next_gateway_and_no_longer_than_its_call)
{
	struct deadlines *d = open_new();
	int one = DEADLINE_NONE, two = DEADLINE_NONE;

	deadline_set(d, &one, ONE, 1000);
	deadline_set(d, &two, TWO, 2000);
	deadline_set(d, &two, TWO, 0);
	d = open_again(d);
	one = two = DEADLINE_NONE;
	CHECK_INT(deadline_find(d, ONE, &one), 1000);
	CHECK_INT(deadline_find(d, TWO, &two), 0);
	CHECK_INT(two, DEADLINE_NONE);
	deadline_set(d, &one, ONE, 0);
	d = open_again(d);
	CHECK_INT(deadline_find(d, ONE, &one), 0);
	end(d);
}

TEST(slots_of_contexts_that_are_gone_are_used_again)
{
	struct deadlines *d = open_new();
	int one = DEADLINE_NONE, two = DEADLINE_NONE;

	deadline_set(d, &one, ONE, 1000);
	deadline_drop(d, &one);
	deadline_set(d, &two, TWO, 2000);
	CHECK_INT(two, 0);
	d = open_again(d);
	deadlines_sweep(d); /* nobody has asked for it */
	d = open_again(d);
	CHECK_INT(deadline_find(d, TWO, &two), 0);
	end(d);
}

TEST(a_call_without_a_timeout_needs_no_slot)
{
	struct deadlines *d = open_new();
	int slot = DEADLINE_NONE;

	deadline_set(d, &slot, ONE, 0);
	CHECK_INT(slot, DEADLINE_NONE);
	deadline_set(NULL, &slot, ONE, 1000);
	CHECK_INT(slot, DEADLINE_NONE);
	end(d);
}

TEST(half_a_slot_at_the_end_of_the_file_is_passed_over)
{
	struct deadlines *d = open_new();
	int slot = DEADLINE_NONE;

	deadline_set(d, &slot, ONE, 1000);
	CHECK_INT(truncate(path, 20), 0);
	d = open_again(d);
	CHECK_INT(deadline_find(d, ONE, &slot), 0);
	end(d);
}
