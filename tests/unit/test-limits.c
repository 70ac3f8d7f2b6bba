// SPDX-License-Identifier: Apache-2.0
#include "sandbox/model/limits_json.h"
#include "test.h"

static const struct guest_limits some = {.memory_bytes = 64 * MIB,
                                         .disk_bytes = 32 * MIB,
                                         .inodes = 1000,
                                         .cpu_milli = 500,
                                         .pids = 20,
                                         .open_files = 30};

static int read_text(const char *text, struct guest_limits *ret)
{
	auto_json json_t *object = NULL;

	CHECK_INT(json_parse(text, strlen(text), &object, NULL), 0);
	return limits_read_row(object, ret);
}

static void check_row(const struct guest_limits *limits, char *text, size_t size)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1024);
	struct json_writer w;

	json_writer_init(&w, &out);
	limits_to_row(limits, &w);
	CHECK_INT(json_writer_end(&w), 0);
	(void)snprintf(text, size, "%s", strchr(buf_str(&out), '{'));
}

TEST(what_is_written_to_a_row_is_read_again)
{
	struct guest_limits again = {0};
	char text[512];

	check_row(&some, text, sizeof(text));
	CHECK_INT(read_text(text, &again), 0);
	CHECK(limits_are_equal(&some, &again));
}

TEST(a_row_of_an_older_cloche_is_read_and_what_it_lacks_is_the_usual)
{
	struct guest_limits again = {0};

	CHECK_INT(read_text("{\"memory_bytes\":67108864,\"disk_bytes\":33554432,\"inodes\":1000,"
	                    "\"cpu_milli\":500,\"nofile\":30}",
	                    &again),
	          0);
	CHECK_INT(again.open_files, 30);
	CHECK_INT(again.pids, limit_table[LIMIT_AT_pids].usual);
	again.pids = some.pids;
	CHECK(limits_are_equal(&some, &again));
}

TEST(a_figure_that_its_member_does_not_hold_is_refused)
{
	struct guest_limits again = {0};

	CHECK(read_text("{\"pids\":4294967296}", &again) < 0);
}

TEST(what_is_said_stays_and_what_is_not_is_filled)
{
	struct guest_limits limits = {.pids = 7};

	limits_fill(&limits, &some);
	CHECK_INT(limits.pids, 7);
	CHECK(!limits_are_equal(&limits, &some));
	limits.pids = some.pids;
	CHECK(limits_are_equal(&limits, &some));
}
