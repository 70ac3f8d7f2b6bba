// SPDX-License-Identifier: Apache-2.0
#include "net/packet/clienthello.h"
#include "test.h"

#include <string.h>

static void put(struct buf *b, const void *data, size_t len)
{
	CHECK_INT(buf_append(b, data, len), 0);
}

static void put_number(struct buf *b, size_t value, size_t size)
{
	for (size_t i = size; i-- > 0;) {
		uint8_t byte = (uint8_t)(value >> 8 * i);

		put(b, &byte, 1);
	}
}

static void put_sized(struct buf *b, size_t length_size, const struct buf *data)
{
	put_number(b, data->len, length_size);
	put(b, buf_str(data), data->len);
}

static void put_extension(struct buf *b, unsigned type, const void *data, size_t len)
{
	put_number(b, type, 2);
	put_number(b, len, 2);
	put(b, data, len);
}

/* The body of server_name with one entry. */
static void put_name(struct buf *b, unsigned type, const char *name, size_t len)
{
	auto_call(buf_done) struct buf list = BUF_INIT(4096), body = BUF_INIT(4096);

	put_number(&list, type, 1);
	put_number(&list, len, 2);
	put(&list, name, len);
	put_sized(&body, 2, &list);
	put_extension(b, 0, body.data, body.len);
}

/* A handshake message with these extensions. */
static void put_hello(struct buf *b, const struct buf *extensions)
{
	auto_call(buf_done) struct buf hello = BUF_INIT(256 * 1024);
	char random[32] = "not so random";

	put(&hello, "\3\3", 2);
	put(&hello, random, sizeof(random));
	put(&hello, "\0", 1);
	put(&hello, "\0\2\x13\1", 4);
	put(&hello, "\1\0", 2);
	if (extensions)
		put_sized(&hello, 2, extensions);
	put(b, "\1", 1);
	put_sized(b, 3, &hello);
}

/* The message in records of at most max bytes. */
static void put_records(struct buf *b, const struct buf *message, size_t max)
{
	for (size_t at = 0; at < message->len; at += max) {
		size_t n = MIN(max, message->len - at);

		put(b, "\x16\3\1", 3);
		put_number(b, n, 2);
		put(b, message->data + at, n);
	}
}

static int feed(const struct buf *wire, size_t step, struct clienthello *ret, const char **why)
{
	struct clienthello_reader r;
	int result = CLIENTHELLO_MORE;

	clienthello_init(&r, ret);
	for (size_t at = 0; at < wire->len && result == CLIENTHELLO_MORE; at += step)
		result = clienthello_feed(&r, wire->data + at, MIN(step, wire->len - at), why);
	clienthello_done(&r);
	return result;
}

/* What comes of a hello with these extensions: "name", "" for none, "malformed" and so on. */
static const char *outcome(const struct buf *extensions)
{
	auto_call(buf_done) struct buf message = BUF_INIT(256 * 1024), wire = BUF_INIT(512 * 1024);
	static struct clienthello hello;
	const char *why = NULL;
	int r;

	put_hello(&message, extensions);
	put_records(&wire, &message, 16384);
	hello = (struct clienthello){0};
	r = feed(&wire, wire.len, &hello, &why);
	CHECK_INT(r < 0, why != NULL);
	return r == CLIENTHELLO_DONE   ? hello.name.text
	       : r == CLIENTHELLO_MORE ? "more"
	       : r < 0                 ? "malformed"
	                               : "not tls";
}

static const char *named(unsigned type, const char *name, size_t len)
{
	auto_call(buf_done) struct buf extensions = BUF_INIT(8192);

	put_name(&extensions, type, name, len);
	return outcome(&extensions);
}

#define NAMED(name) named(0, name, sizeof(name) - 1)

TEST(the_name_of_a_hello_is_canonical)
{
	CHECK_STR(NAMED("Example.COM"), "example.com");
	CHECK_STR(outcome(NULL), "");
}

TEST(a_name_that_is_none_makes_the_hello_malformed)
{
	CHECK_STR(NAMED(""), "malformed");
	CHECK_STR(NAMED("127.0.0.1"), "malformed");
	CHECK_STR(NAMED("::1"), "malformed");
	CHECK_STR(NAMED("2130706433"), "malformed");
	CHECK_STR(NAMED("evil.tld\0.allowed.com"), "malformed");
	CHECK_STR(NAMED("a b"), "malformed");
	CHECK_STR(NAMED("a..b"), "malformed");
	CHECK_STR(NAMED("*.example.com"), "malformed");
	CHECK_STR(named(1, "example.com", 11), "malformed");
}

TEST(two_names_are_refused_in_either_form)
{
	auto_call(buf_done) struct buf twice = BUF_INIT(4096), list = BUF_INIT(4096);

	put_name(&twice, 0, "a.com", 5);
	put_name(&twice, 0, "b.com", 5);
	CHECK_STR(outcome(&twice), "malformed");
	buf_truncate(&twice, 0);
	put(&list, "\0\x10\0\0\5a.com\0\0\5b.com", 18);
	put_extension(&twice, 0, list.data, list.len);
	CHECK_STR(outcome(&twice), "malformed");
}

TEST(lengths_that_do_not_fit_are_refused)
{
	static const struct {
		const char *body;
		size_t len;
	} rows[] = {
		{"", 0},
		{"\0", 1},
		{"\0\0", 2},
		{"\0\x8\0\0\5a.com", 10},   /* as it should be */
		{"\0\x9\0\0\5a.com", 10},   /* says more than there is */
		{"\0\x7\0\0\5a.com", 10},   /* says less */
		{"\0\x8\0\0\6a.com", 10},   /* the name says more */
		{"\0\x8\0\0\4a.com", 10},   /* the name says less */
		{"\0\x8\0\0\5a.com\0", 11}, /* bytes behind the list */
		{"\0\x8\0\xff\xff"
	         "a.com",
	         10},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf extensions = BUF_INIT(4096);

		put_extension(&extensions, 0, rows[i].body, rows[i].len);
		CHECK_STR(outcome(&extensions), i == 3 ? "a.com" : "malformed");
	}
}

TEST(offers_are_told)
{
	auto_call(buf_done) struct buf extensions = BUF_INIT(4096), message = BUF_INIT(4096),
				       wire = BUF_INIT(4096);
	struct clienthello hello = {0};

	put_extension(&extensions, 0x0a0a, "", 0); /* GREASE */
	put_name(&extensions, 0, "a.com", 5);
	put_extension(&extensions, 16, "\0\x0c\2h2\x8http/1.1", 14);
	put_extension(&extensions, 43, "\x6\x1a\x1a\3\4\3\3", 7);
	put_extension(&extensions, 42, "", 0);
	put_extension(&extensions, 0xfe0d, "\0", 1);
	put_hello(&message, &extensions);
	put_records(&wire, &message, 16384);
	CHECK_INT(feed(&wire, wire.len, &hello, NULL), CLIENTHELLO_DONE);
	CHECK(hello.has_name && hello.has_alpn && hello.offers_h2 && hello.offers_http1);
	CHECK(hello.has_ech && hello.has_early_data);
	CHECK_INT(hello.version, 0x0304);
}

TEST(malformed_offers_are_refused)
{
	static const struct {
		unsigned type;
		const char *body;
		size_t len;
	} rows[] = {
		{16, "", 0},           {16, "\0\0", 2},     {16, "\0\1\0", 3},
		{16, "\0\3\3h2", 5},   {16, "\0\2\2h2", 5}, {43, "", 0},
		{43, "\0", 1},         {43, "\3\3\4\3", 4}, {43, "\2\x1a\x1a", 3},
		{43, "\2\3\4\3\3", 5},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf extensions = BUF_INIT(4096);

		put_extension(&extensions, rows[i].type, rows[i].body, rows[i].len);
		CHECK_STR(outcome(&extensions), "malformed");
	}
}

TEST(any_extension_twice_is_refused)
{
	auto_call(buf_done) struct buf extensions = BUF_INIT(4096);

	put_extension(&extensions, 10, "\0\2\0\x1d", 4);
	put_extension(&extensions, 10, "\0\2\0\x1d", 4);
	CHECK_STR(outcome(&extensions), "malformed");
}

TEST(cuts_and_sizes_change_nothing)
{
	static const size_t records[] = {1, 3, 5, 100, 16384}, steps[] = {1, 2, 7, 1000, 65536};
	static const char big[20000];
	auto_call(buf_done) struct buf extensions = BUF_INIT(64 * 1024);

	/* A key share of a post-quantum group, and more. */
	put_extension(&extensions, 51, big, sizeof(big) / 4);
	put_name(&extensions, 0, "a.com", 5);
	put_extension(&extensions, 21, big, 100);
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		for (size_t j = 0; j < ARRAY_SIZE(steps); j++) {
			auto_call(buf_done) struct buf message = BUF_INIT(64 * 1024),
						       wire = BUF_INIT(512 * 1024);
			struct clienthello hello = {0};

			put_hello(&message, &extensions);
			put_records(&wire, &message, records[i]);
			CHECK_INT(feed(&wire, steps[j], &hello, NULL), CLIENTHELLO_DONE);
			CHECK_STR(hello.name.text, "a.com");
		}
}

TEST(more_than_64_kib_are_refused_early)
{
	static const char big[60000];
	auto_call(buf_done) struct buf extensions = BUF_INIT(128 * 1024),
				       message = BUF_INIT(128 * 1024), wire = BUF_INIT(1024 * 1024);
	struct clienthello hello = {0};
	const char *why = NULL;

	put_extension(&extensions, 51, big, sizeof(big));
	put_hello(&message, &extensions);
	put_records(&wire, &message, 16384);
	CHECK_INT(feed(&wire, 1000, &hello, NULL), CLIENTHELLO_DONE);
	/* The same in records of a byte is past what is looked at. */
	buf_truncate(&wire, 0);
	put_records(&wire, &message, 1);
	CHECK_INT(feed(&wire, 1000, &hello, &why), -EINVAL);
	/* A head that promises 16 MiB is not waited for. */
	buf_truncate(&wire, 0);
	put(&wire, "\x16\3\1\x40\0\1\xff\xff\xff", 9);
	CHECK_INT(feed(&wire, 1, &hello, &why), -EINVAL);
}

TEST(what_is_not_tls_is_known_at_once)
{
	static const char *const texts[] = {"GET / HTTP/1.1\r\n", "\x80\x2e\x01\x03\x01",
	                                    "SSH-2.0-x",          "\x16\x02\x01",
	                                    "\x15\x03\x01\x02",   "\x17\x03\x03"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_call(buf_done) struct buf wire = BUF_INIT(64);
		struct clienthello hello = {0};

		put(&wire, texts[i], strlen(texts[i]));
		CHECK_INT(feed(&wire, 1, &hello, NULL), CLIENTHELLO_NOT_TLS);
		CHECK_INT(feed(&wire, 64, &hello, NULL), CLIENTHELLO_NOT_TLS);
	}
}

TEST(a_record_of_no_size_or_another_message_is_refused)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{"\x16\3\1\0\0", 5},
		{"\x16\3\1\x40\1", 5},
		{"\x16\3\1\0\1\2", 6},            /* ServerHello */
		{"\x16\3\1\0\2\1\0\x17\3\3", 10}, /* data in the middle of the hello */
		{"\x16\3\1\0\2\1\0\x15\3\3", 10},
		{"\x16\3\1\0\5\1\0\0\1\0", 10}, /* a hello of one byte */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf wire = BUF_INIT(64);
		struct clienthello hello = {0};

		put(&wire, rows[i].bytes, rows[i].len);
		CHECK_INT(feed(&wire, 1, &hello, NULL), -EINVAL);
		CHECK_INT(feed(&wire, 64, &hello, NULL), -EINVAL);
	}
}

TEST(bytes_behind_the_hello_in_its_record_are_refused_and_later_records_are_not_read)
{
	auto_call(buf_done) struct buf message = BUF_INIT(4096), wire = BUF_INIT(4096);
	struct clienthello hello = {0};

	put_hello(&message, NULL);
	put_records(&wire, &message, 16384);
	put(&wire, "\x17\3\3\0\5early", 10);
	CHECK_INT(feed(&wire, wire.len, &hello, NULL), CLIENTHELLO_DONE);
	put(&message, "x", 1);
	buf_truncate(&wire, 0);
	put_records(&wire, &message, 16384);
	CHECK_INT(feed(&wire, wire.len, &hello, NULL), -EINVAL);
	CHECK_INT(feed(&wire, 1, &hello, NULL), -EINVAL);
}
