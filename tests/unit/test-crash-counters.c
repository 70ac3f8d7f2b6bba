// SPDX-License-Identifier: Apache-2.0
/* Numbers by id, as the next gateway finds them. */
#include "test.h"

#include "sandbox/model/crash_counters.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define ONE "ctx_33333333333333333333333333"
#define TWO "ctx_22222222222222222222222222"

static char path[] = "/tmp/test-crash-counters.XXXXXX";

static struct crash_counters *open_again(struct crash_counters *j)
{
	struct err err;

	crash_counters_close(j);
	CHECK_INT(crash_counters_open(path, /* is_first= */ true, &j, &err), 0);
	return j;
}

static struct crash_counters *open_new(void)
{
	int fd;

	(void)memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	(void)close(fd);
	return open_again(NULL);
}

static void end(struct crash_counters *j)
{
	crash_counters_close(j);
	(void)unlink(path);
}

TEST(a_number_is_found_by_the_next_gateway_until_it_is_taken_back)
{
	struct crash_counters *j = open_new();
	int one = CRASH_COUNTER_NONE, two = CRASH_COUNTER_NONE;

	crash_counter_set(j, &one, ONE, 1000);
	crash_counter_set(j, &two, TWO, 2000);
	crash_counter_set(j, &two, TWO, 0);
	j = open_again(j);
	one = two = CRASH_COUNTER_NONE;
	CHECK_INT(crash_counter_find(j, ONE, &one), 1000);
	CHECK_INT(crash_counter_find(j, TWO, &two), 0);
	CHECK_INT(two, CRASH_COUNTER_NONE);
	crash_counter_set(j, &one, ONE, 0);
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, ONE, &one), 0);
	end(j);
}

TEST(slots_of_what_is_gone_are_used_again)
{
	struct crash_counters *j = open_new();
	int one = CRASH_COUNTER_NONE, two = CRASH_COUNTER_NONE;

	crash_counter_set(j, &one, ONE, 1000);
	crash_counter_drop(j, &one);
	crash_counter_set(j, &two, TWO, 2000);
	CHECK_INT(two, 1);
	j = open_again(j);
	crash_counters_sweep(j); /* nobody has asked for it */
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, TWO, &two), 0);
	end(j);
}

TEST(what_has_no_number_needs_no_slot)
{
	struct crash_counters *j = open_new();
	int slot = CRASH_COUNTER_NONE;

	crash_counter_set(j, &slot, ONE, 0);
	CHECK_INT(slot, CRASH_COUNTER_NONE);
	crash_counter_set(NULL, &slot, ONE, 1000);
	CHECK_INT(slot, CRASH_COUNTER_NONE);
	end(j);
}

TEST(half_a_slot_at_the_end_of_the_file_is_passed_over)
{
	struct crash_counters *j = open_new();
	int slot = CRASH_COUNTER_NONE;

	crash_counter_set(j, &slot, ONE, 1000);
	CHECK_INT(truncate(path, 64 + 60), 0);
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, ONE, &slot), 0);
	end(j);
}

TEST(a_slot_that_is_used_again_has_its_new_id_on_record)
{
	struct crash_counters *j = open_new();
	int one = CRASH_COUNTER_NONE, two = CRASH_COUNTER_NONE;

	crash_counter_set(j, &one, ONE, 1000);
	j = open_again(j);
	crash_counter_set(j, &two, TWO, 1000); /* nobody has found the first, nor swept it */
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, TWO, &two), 1000);
	CHECK_INT(crash_counter_find(j, ONE, &one), 0);
	end(j);
}

TEST(what_is_no_number_of_anything_is_forgotten_and_the_rest_stays)
{
	struct crash_counters *j = open_new();
	int one = CRASH_COUNTER_NONE, two = CRASH_COUNTER_NONE;
	int fd = open(path, O_RDWR);

	crash_counter_set(j, &one, ONE, 1000);
	crash_counter_set(j, &two, TWO, 2000);
	CHECK_INT(pwrite(fd, "garbage garbage garbage garbage", 31, 64), 31);
	j = open_again(j);
	one = two = CRASH_COUNTER_NONE;
	CHECK_INT(crash_counter_find(j, ONE, &one), 0);
	CHECK_INT(crash_counter_find(j, TWO, &two), 2000);
	(void)close(fd);
	end(j);
}

TEST(a_file_of_an_older_release_keeps_its_first_slot)
{
	struct crash_counters *j = open_new();
	int one = CRASH_COUNTER_NONE, fd = open(path, O_RDWR);
	char slot[64] = {0};

	crash_counter_set(j, &one, ONE, 1000);
	CHECK_INT(pread(fd, slot, sizeof(slot), 64), sizeof(slot));
	CHECK_INT(pwrite(fd, slot, sizeof(slot), 0), sizeof(slot));
	CHECK_INT(ftruncate(fd, sizeof(slot)), 0);
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, ONE, &one), 1000);
	crash_counters_sweep(j);
	j = open_again(j);
	CHECK_INT(crash_counter_find(j, ONE, &one), 1000);
	(void)close(fd);
	end(j);
}
