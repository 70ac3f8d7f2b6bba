// SPDX-License-Identifier: Apache-2.0
#include "proto/port.h"
#include "test.h"

#include <string.h>

TEST(data_longer_than_a_record_comes_back_whole_and_in_order)
{
	auto_call(buf_done) struct buf stream = BUF_INIT(1024 * 1024), got = BUF_INIT(1024 * 1024);
	auto_free char *data = xcalloc(1, 200000);
	struct port_record record;

	for (size_t i = 0; i < 200000; i++)
		data[i] = (char)(i * 7 + i / 251);
	CHECK_INT(port_put(&stream, 5, data, 200000), 0);
	while (port_get(&stream, &record) > 0) {
		CHECK_INT(record.connection, 5);
		CHECK_INT(buf_append(&got, record.data, record.len), 0);
		port_consume(&stream, &record);
	}
	CHECK_INT(stream.len, 0);
	CHECK_INT(got.len, 200000);
	CHECK(memcmp(got.data, data, got.len) == 0);
}

TEST(what_does_not_fit_leaves_the_stream_as_it_was)
{
	auto_call(buf_done) struct buf stream = BUF_INIT(100);
	char data[100] = {0};

	CHECK_INT(port_put(&stream, 1, data, 20), 0);
	CHECK_INT(port_put(&stream, 1, data, sizeof(data)), -E2BIG);
	CHECK_INT(port_put_control(&stream, PORT_FAILED, data, sizeof(data)), -E2BIG);
	CHECK_INT(stream.len, PORT_HEAD_SIZE + 20);
}

TEST(a_record_that_is_cut_waits_for_its_rest)
{
	auto_call(buf_done) struct buf stream = BUF_INIT(1024), half = BUF_INIT(1024);
	struct port_record record;

	CHECK_INT(port_put_control(&stream, PORT_SETUP, "pids=1\n", 7), 0);
	for (size_t i = 0; i < stream.len; i++) {
		CHECK_INT(port_get(&half, &record), 0);
		CHECK_INT(buf_append(&half, stream.data + i, 1), 0);
	}
	CHECK_INT(port_get(&half, &record), 1);
	CHECK_INT(record.connection, 0);
	CHECK_INT(record.data[0], PORT_SETUP);
}

TEST(a_record_longer_than_allowed_is_refused_by_its_head)
{
	static const unsigned char heads[][PORT_HEAD_SIZE] = {
		{1, 0, 0, 0, 1, 0, 1, 0},             /* 65537 bytes of data */
		{0, 0, 0, 0, 1, 0x10, 0, 0},          /* 4097 of control */
		{0, 0, 0, 0, 0, 0, 0, 0},             /* control without a kind */
		{9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, /* 4 GiB */
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		auto_call(buf_done) struct buf in = BUF_INIT(64);
		struct port_record record;

		CHECK_INT(buf_append(&in, heads[i], sizeof(heads[i])), 0);
		CHECK_INT(port_get(&in, &record), -EPROTO);
	}
}

TEST(a_setup_comes_back_as_it_was_printed)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX);
	struct port_setup s = {.hostname = "sb-1",
	                       .has_machine_id = true,
	                       .has_seed = true,
	                       .has_caps = true,
	                       .caps = 0xdeadbeef0,
	                       .clock_us = UINT64_C(1763200000000000),
	                       .open_files = 1024,
	                       .pids = 64,
	                       .memory_bytes = UINT64_C(512) << 20,
	                       .ip4 = {{10, 0, 2, 2}, true},
	                       .gateway6 = {{0xfd, 1, [15] = 1}, true}};
	struct port_setup back = {0};
	struct err err;

	memset(s.machine_id, 0xab, sizeof(s.machine_id));
	memset(s.seed, 0x01, sizeof(s.seed));
	CHECK_INT(port_setup_print(&s, &text), 0);
	CHECK_INT(port_setup_parse(text.data, text.len, &back, &err), 0);
	CHECK(memcmp(&s, &back, sizeof(s)) == 0);
}

TEST(keys_that_a_newer_side_knows_are_passed_over)
{
	static const char text[] = "colour=blue\npids=7\n=\n";
	struct port_setup s;
	struct err err;

	CHECK_INT(port_setup_parse(text, strlen(text), &s, &err), 0);
	CHECK_INT(s.pids, 7);
}

TEST(a_setup_with_a_wrong_value_is_refused_with_its_key)
{
	static const struct {
		const char *text, *key;
	} wrong[] = {
		{"hostname=a b\n", "hostname"},
		{"hostname=\n", "hostname"},
		{"machine_id=12\n", "machine_id"},
		{"seed=zz\n", "seed"},
		{"pids=-1\n", "pids"},
		{"memory=18446744073709551615\n", "memory"},
		{"ip4=10.0.2\n", "ip4"},
		{"ip6=10.0.2.2\n", "ip6"},
		{"caps=\n", "caps"},
		{"pids\n", "pids"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct port_setup s;
		struct err err;

		CHECK_INT(port_setup_parse(wrong[i].text, strlen(wrong[i].text), &s, &err),
		          -EPROTO);
		CHECK(strstr(err.message, wrong[i].key));
	}
}

TEST(usage_comes_back_as_it_was_printed)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX);
	const struct port_usage u = {1, 2, 3, 4, 5, 6, 7, 8};
	struct port_usage back;
	struct err err;

	CHECK_INT(port_usage_print(&u, &text), 0);
	CHECK_INT(port_usage_parse(text.data, text.len, &back, &err), 0);
	CHECK(memcmp(&u, &back, sizeof(u)) == 0);
}
