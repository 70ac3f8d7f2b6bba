// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "proto/frame.h"
#include "proto/start.h"
#include "test.h"

#include <string.h>

static struct start an_exec(void)
{
	static char sh[] = "sh", c[] = "-c", script[] = "true", a[] = "A=1";
	static char *argv[] = {sh, c, script, NULL};
	static char *env[] = {a, NULL};

	return (struct start){.kind = START_EXEC,
	                      .tag = unconst("ex_1"),
	                      .user = unconst("root"),
	                      .argv = argv,
	                      .argc = 3,
	                      .env = env,
	                      .envc = 1,
	                      .cwd = unconst("/tmp"),
	                      .has_pty = true,
	                      .rows = 24,
	                      .cols = 80,
	                      .timeout_us = 5,
	                      .grace_us = 6};
}

TEST(numbers_and_strings_come_back_as_they_were_packed)
{
	auto_call(buf_done) struct buf b = BUF_INIT(1024);
	struct pack p = {.out = &b};
	struct unpack u;
	auto_free char *text = NULL;

	pack_u8(&p, 0xfe);
	pack_u16(&p, 0xfedc);
	pack_u32(&p, 0xfedcba98);
	pack_u64(&p, 0xfedcba9876543210);
	pack_str(&p, "cloche");
	CHECK_INT(p.error, 0);
	CHECK_INT((unsigned char)b.data[1], 0xdc); /* little endian */
	u = (struct unpack){.data = (unsigned char *)b.data, .len = b.len};
	CHECK_INT(unpack_u8(&u), 0xfe);
	CHECK_INT(unpack_u16(&u), 0xfedc);
	CHECK_INT(unpack_u32(&u), 0xfedcba98);
	CHECK(unpack_u64(&u) == 0xfedcba9876543210);
	text = unpack_str(&u, 100);
	CHECK_STR(text, "cloche");
	CHECK_INT(unpack_end(&u), 0);
}

TEST(reading_past_the_end_sticks)
{
	struct unpack u = {.data = (const unsigned char *)"ab", .len = 2};

	CHECK_INT(unpack_u32(&u), 0);
	CHECK_INT(unpack_u8(&u), 0);
	CHECK_INT(unpack_end(&u), -EPROTO);
}

TEST(a_string_with_a_nul_or_past_its_most_is_refused)
{
	struct unpack nul = {.data = (const unsigned char *)"\3\0\0\0a\0b", .len = 7};
	struct unpack big = {.data = (const unsigned char *)"\3\0\0\0abc", .len = 7};

	CHECK(unpack_str(&nul, 10) == NULL);
	CHECK(unpack_str(&big, 2) == NULL);
}

TEST(a_frame_comes_out_whole_however_it_is_cut)
{
	auto_call(buf_done) struct buf whole = BUF_INIT(4096);
	auto_call(buf_done) struct buf in = BUF_INIT(4096);
	struct frame f;

	CHECK_INT(frame_put(&whole, FRAME_INPUT, 7, 9, "hello", 5), 0);
	for (size_t i = 0; i < whole.len; i++) {
		CHECK_INT(frame_get(&in, FRAME_FROM_HOST, &f), 0);
		CHECK_INT(buf_append(&in, whole.data + i, 1), 0);
	}
	CHECK_INT(frame_get(&in, FRAME_FROM_HOST, &f), 1);
	CHECK_INT(f.type, FRAME_INPUT);
	CHECK_INT(f.channel, 7);
	CHECK_INT(f.epoch, 9);
	CHECK_MEM(f.payload, f.len, "hello", 5);
	frame_consume(&in, &f);
	CHECK_INT(in.len, 0);
}

TEST(a_frame_that_its_sender_may_not_send_is_refused)
{
	auto_call(buf_done) struct buf b = BUF_INIT(4096);
	struct frame f;

	CHECK_INT(frame_put(&b, FRAME_CLOSED, 7, 1, NULL, 0), 0);
	CHECK_INT(frame_get(&b, FRAME_FROM_HOST, &f), -EPROTO);
	CHECK_INT(frame_get(&b, FRAME_FROM_AGENT, &f), 1);
}

TEST(a_broken_header_is_refused_before_its_payload_arrives)
{
	static const unsigned char good[FRAME_HEAD_SIZE] = {8, 0, 0, 0, FRAME_ACK, 0, 0, 0, 1};
	static const struct {
		size_t at;
		unsigned char byte;
	} breaks[] = {{0, 9}, {3, 1}, {4, 0}, {4, 30}, {4, 200}, {5, 1}, {6, 1}, {8, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(breaks); i++) {
		auto_call(buf_done) struct buf b = BUF_INIT(64);
		struct frame f;

		CHECK_INT(buf_append(&b, good, sizeof(good)), 0);
		CHECK_INT(frame_get(&b, FRAME_FROM_HOST, &f), 0);
		b.data[breaks[i].at] = (char)breaks[i].byte;
		CHECK_INT(frame_get(&b, FRAME_FROM_HOST, &f), -EPROTO);
	}
}

TEST(a_frame_too_large_for_the_buf_leaves_it_as_it_was)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_HEAD_SIZE + 4);

	CHECK_INT(frame_put(&b, FRAME_INPUT, 1, 1, "12345", 5), -E2BIG);
	CHECK_INT(b.len, 0);
}

TEST(an_exec_comes_back_as_it_was_encoded)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct start s = an_exec(), t;

	CHECK_INT(start_encode(&s, &b), 0);
	CHECK_INT(start_decode(b.data, b.len, &t), 0);
	CHECK_STR(t.tag, "ex_1");
	CHECK_INT(t.argc, 3);
	CHECK_STR(t.argv[2], "true");
	CHECK(t.argv[3] == NULL);
	CHECK_STR(t.env[0], "A=1");
	CHECK_STR(t.cwd, "/tmp");
	CHECK(t.has_pty && !t.has_stdin);
	CHECK_INT(t.grace_us, 6);
	start_done(&t);
}

TEST(a_start_cut_or_lengthened_anywhere_is_refused)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct start s = an_exec(), t;

	CHECK_INT(start_encode(&s, &b), 0);
	for (size_t len = 0; len < b.len; len++)
		CHECK_INT(start_decode(b.data, len, &t), -EPROTO);
	CHECK_INT(buf_append(&b, "x", 1), 0);
	CHECK_INT(start_decode(b.data, b.len, &t), -EPROTO);
}

TEST(an_encoder_refuses_what_its_decoder_would)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	static char path[] = "PATH";
	static char *no_equals[] = {path, NULL};
	struct start s = an_exec();

	s.tag = unconst("../etc");
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	s = an_exec();
	s.argc = 0;
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	s = an_exec();
	s.env = no_equals;
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	s = an_exec();
	s.kind = START_KERNEL;
	s.has_stdin = true;
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	s.has_stdin = false;
	s.has_pty = true;
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	s = (struct start){.kind = START_FILE, .op = FILE_OP_COUNT};
	CHECK_INT(start_encode(&s, &b), -EINVAL);
	CHECK_INT(b.len, 0);
}

TEST(a_kernel_comes_back_as_it_was_encoded)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct start s = an_exec(), t;

	s.kind = START_KERNEL;
	s.has_stdin = s.has_pty = false;
	CHECK_INT(start_encode(&s, &b), 0);
	CHECK_INT(start_decode(b.data, b.len, &t), 0);
	CHECK_INT(t.kind, START_KERNEL);
	CHECK_STR(t.argv[0], s.argv[0]);
	start_done(&t);
	b.data[0] = START_FORKED;
	CHECK_INT(start_decode(b.data, b.len, &t), 0);
	CHECK_INT(t.kind, START_FORKED);
	start_done(&t);
}

TEST(words_beyond_the_most_are_refused)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	auto_free char *word = xcalloc(1, START_BYTES_MAX + 1);
	char *argv[] = {word, NULL};
	struct start s = an_exec();

	memset(word, 'x', START_BYTES_MAX);
	s.argv = argv;
	s.argc = 1;
	CHECK_INT(start_encode(&s, &b), -E2BIG);
}

TEST(a_file_operation_comes_back_as_it_was_encoded)
{
	auto_call(buf_done) struct buf b = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct start s = {.kind = START_FILE,
	                  .op = FILE_CHOWN,
	                  .path = unconst("/a"),
	                  .owner = unconst("user:1"),
	                  .flags = FILE_RECURSIVE | FILE_MODE,
	                  .mode = 0755,
	                  .size = UINT64_MAX};
	struct start t;

	CHECK_INT(start_encode(&s, &b), 0);
	CHECK_INT(start_decode(b.data, b.len, &t), 0);
	CHECK_INT(t.op, FILE_CHOWN);
	CHECK_STR(t.owner, "user:1");
	CHECK_STR(t.path2, "");
	CHECK(t.size == UINT64_MAX);
	start_done(&t);
}

TEST(an_exit_comes_back_and_a_wrong_one_is_refused)
{
	auto_call(buf_done) struct buf b = BUF_INIT(1024);
	struct channel_exit e = {.how = EXIT_FAILED, .value = ENOENT, .message = "no"}, f;

	CHECK_INT(channel_exit_encode(&e, &b), 0);
	CHECK_INT(channel_exit_decode(b.data, b.len, &f), 0);
	CHECK_INT(f.value, ENOENT);
	CHECK_STR(f.message, "no");
	b.data[0] = 9;
	CHECK_INT(channel_exit_decode(b.data, b.len, &f), -EPROTO);
	e = (struct channel_exit){.how = EXIT_SIGNAL, .value = 65};
	CHECK_INT(channel_exit_encode(&e, &b), -EINVAL);
}

TEST(records_come_out_one_by_one_however_they_are_cut)
{
	auto_call(buf_done) struct buf b = BUF_INIT(4096);
	struct record a = {.kind = RECORD_ENTRY, .path = unconst("x"), .mode = 0100644, .size = 5};
	struct record m = {.kind = RECORD_EVENT,
	                   .event = WATCH_MOVED,
	                   .path = unconst("x"),
	                   .path2 = unconst("y")};
	struct record r;
	size_t used, first;

	CHECK_INT(record_encode(&a, &b), 0);
	first = b.len;
	CHECK_INT(record_encode(&m, &b), 0);
	for (size_t len = 0; len < first; len++)
		CHECK_INT(record_decode(b.data, len, &r, &used), 0);
	CHECK_INT(record_decode(b.data, b.len, &r, &used), 1);
	CHECK_INT(used, first);
	CHECK_INT(r.size, 5);
	record_done(&r);
	CHECK_INT(record_decode(b.data + used, b.len - used, &r, &used), 1);
	CHECK_STR(r.path2, "y");
	record_done(&r);
}

TEST(a_record_longer_than_the_most_is_refused_at_once)
{
	struct record r;
	size_t used;

	CHECK_INT(record_decode("\xff\xff\xff\x7f", 4, &r, &used), -EPROTO);
}
