// SPDX-License-Identifier: Apache-2.0
#include "audit/object_push.h"
#include "audit/syslog_line.h"
#include "event/verify.h"
#include "object/object_sign.h"
#include "test.h"

#include <string.h>

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The suite that AWS publishes for Signature Version 4 has these. */
static const struct object_credentials suite = {
	.id = "AKIDEXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
/* And "Signature Calculations for the Authorization Header" of the manual of S3. */
static const struct object_credentials manual = {
	.id = "AKIAIOSFODNN7EXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

static void check_signature(const struct object_sign *s, const char *expected)
{
	char value[OBJECT_SIGN_SIZE];

	CHECK_INT(object_sign(s, value), 0);
	CHECK_STR(value, expected);
}

#define SUITE_FIELDS                                                                               \
	{"host", "example.amazonaws.com"},                                                         \
	{                                                                                          \
		"x-amz-date", "20150830T123600Z"                                                   \
	}

TEST(signatures_are_those_of_the_published_suite)
{
	static const struct http_field fields[] = {SUITE_FIELDS};
	static const struct http_field more[] = {SUITE_FIELDS,
	                                         {"x-amz-security-token", "AQoDYXdzEPT"}};
	static const struct {
		const char *method, *path, *query, *signature;
	} rows[] = {
		{"GET", "/", "",
	         "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"POST", "/", "",
	         "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"GET", "/", "Param1=value1&Param2=value2",
	         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	};
	struct object_sign s = {.credentials = &suite,
	                        .region = "us-east-1",
	                        .service = "service",
	                        .time = "20150830T123600Z",
	                        .fields = fields,
	                        .n_fields = ARRAY_SIZE(fields),
	                        .content_hash = EMPTY};
	char expected[OBJECT_SIGN_SIZE], one[OBJECT_SIGN_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		s.method = rows[i].method;
		s.path = rows[i].path;
		s.query = rows[i].query;
		(void)snprintf(expected, sizeof(expected),
		               "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/"
		               "aws4_request, SignedHeaders=host;x-amz-date, Signature=%s",
		               rows[i].signature);
		check_signature(&s, expected);
	}
	s.fields = more;
	s.n_fields = ARRAY_SIZE(more);
	CHECK_INT(object_sign(&s, one), 0);
	CHECK(strstr(one, "SignedHeaders=host;x-amz-date;x-amz-security-token,") != NULL);
}

TEST(signatures_are_those_of_the_manual_of_s3)
{
	static const struct http_field get[] = {
		{"host", "examplebucket.s3.amazonaws.com"},
		{"range", "bytes=0-9"},
		{"x-amz-content-sha256", EMPTY},
		{"x-amz-date", "20130524T000000Z"},
	};
	static const struct http_field put[] = {
		{"date", "Fri, 24 May 2013 00:00:00 GMT"},
		{"host", "examplebucket.s3.amazonaws.com"},
		{"x-amz-content-sha256",
	         "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
		{"x-amz-date", "20130524T000000Z"},
		{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
	};
	struct object_sign s = {.credentials = &manual,
	                        .region = "us-east-1",
	                        .service = "s3",
	                        .time = "20130524T000000Z",
	                        .method = "GET",
	                        .path = "/test.txt",
	                        .fields = get,
	                        .n_fields = ARRAY_SIZE(get),
	                        .content_hash = EMPTY};
	char hash[OBJECT_HASH_SIZE];

	check_signature(
		&s, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
		    "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	object_hash("Welcome to Amazon S3.", 21, hash);
	CHECK_STR(hash, put[2].value);
	s.method = "PUT";
	s.path = "/test%24file.text";
	s.fields = put;
	s.n_fields = ARRAY_SIZE(put);
	s.content_hash = hash;
	check_signature(
		&s, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request, "
		    "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, "
		    "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(times_are_told_as_the_store_reads_them)
{
	char time[OBJECT_SIGN_TIME_SIZE];

	object_sign_time(UINT64_C(1440938160) * 1000000 + 999999, time);
	CHECK_STR(time, "20150830T123600Z");
}

static int parse(const char *text, struct object_credentials *ret, struct err *err)
{
	char copy[512];

	(void)snprintf(copy, sizeof(copy), "%s", text);
	return object_credentials_parse(copy, ret, err);
}

TEST(credentials_are_read_as_the_tools_of_aws_write_them)
{
	struct object_credentials c;
	struct err err;

	CHECK_INT(parse("[default]\n# mine\naws_access_key_id = A\r\naws_secret_access_key=B/+=\n",
	                &c, &err),
	          0);
	CHECK_STR(c.id, "A");
	CHECK_STR(c.secret, "B/+=");
	CHECK(c.session == NULL);
	object_credentials_done(&c);
	CHECK_INT(
		parse("[other]\naws_access_key_id=X\naws_secret_access_key=Y\naws_session_token=Z\n"
	              "[default]\naws_access_key_id=A\naws_secret_access_key=B\n[third]\n"
	              "aws_access_key_id=N\n",
	              &c, &err),
		0);
	CHECK_STR(c.id, "A");
	CHECK(c.session == NULL);
	object_credentials_done(&c);
	CHECK_INT(parse("aws_access_key_id=A\naws_secret_access_key=B\naws_session_token=T\n", &c,
	                &err),
	          0);
	CHECK_STR(c.session, "T");
	object_credentials_done(&c);
}

TEST(credentials_that_say_nothing_are_refused)
{
	static const char *const texts[] = {"",
	                                    "[default]\n",
	                                    "aws_access_key_id=A\n",
	                                    "aws_secret_access_key=B\n",
	                                    "AKIA:secret\n",
	                                    "aws_access_key_id=A B\naws_secret_access_key=C\n"};
	struct object_credentials c;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK(parse(texts[i], &c, &err) < 0);
}

TEST(the_url_of_a_store_names_a_bucket)
{
	static const char *const good[] = {"https://s3.eu-central-1.amazonaws.com/audit",
	                                   "http://127.0.0.1:9000/audit/host-1/",
	                                   "https://[::1]:9000/a.b/c_d~e"};
	static const char *const bad[] = {"s3://audit",
	                                  "https://store.example",
	                                  "https://store.example/",
	                                  "https://store.example//a",
	                                  "https://store.example/a?b",
	                                  "https://store.example/a%20b",
	                                  "https://u@store.example/a",
	                                  "tcp://store.example:1/a",
	                                  "https://store.example/a//b",
	                                  "https://store.example/a/../b"};
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_INT(object_url_check(good[i], "audit.s3_url", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(object_url_check(bad[i], "audit.s3_url", &err) < 0);
}

TEST(a_line_of_syslog_has_its_length_its_time_and_the_entry)
{
	static const char entry[] = "{\"seq\":1}";
	const struct event_line line = {.at_us = UINT64_C(1440938160000007),
	                                .type = "api.read",
	                                .json = entry,
	                                .len = strlen(entry)};
	struct buf out = BUF_INIT(4096), small = BUF_INIT(64);

	CHECK_INT(syslog_line_put(&out, "a host\n", &line), 0);
	CHECK_STR(buf_str(&out),
	          "72 <110>1 2015-08-30T12:36:00.000007Z a_host_ cloche - api.read - {\"seq\":1}");
	CHECK_INT(out.len, strlen("72 ") + 72);
	CHECK_INT(syslog_line_put(&small, "", &line), -E2BIG);
	CHECK_INT(small.len, 0);
	buf_done(&out);
	buf_done(&small);
}

TEST(the_place_of_a_syslog_server_has_a_usual_port)
{
	static const struct {
		const char *text, *host, *url;
		uint16_t port;
		bool is_tls;
	} rows[] = {
		{"tcp://logs.example", "logs.example", "tcp://logs.example:601", 601, false},
		{"tcp://10.0.0.1:514", "10.0.0.1", "tcp://10.0.0.1:514", 514, false},
		{"tls://Logs.Example", "logs.example", "tcp://Logs.Example:6514", 6514, true},
		{"syslog+tls://[::1]:99", "::1", "tcp://[::1]:99", 99, true},
		{"syslog+tcp://[::1]", "::1", "tcp://[::1]:601", 601, false},
	};
	static const char *const bad[] = {"udp://a:1", "tcp://",    "tls://a/b",
	                                  "a:514",     "tcp://a:0", "tls://u@a"};
	struct syslog_place place;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(syslog_place_parse(rows[i].text, "f", &place, &err), 0);
		CHECK_STR(place.host, rows[i].host);
		CHECK_STR(place.url, rows[i].url);
		CHECK_INT(place.port, rows[i].port);
		CHECK_INT(place.is_tls, rows[i].is_tls);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(syslog_place_parse(bad[i], "f", &place, &err) < 0);
}

TEST(a_gap_that_is_told_hides_nothing_before_it)
{
	static const char hash[] = "aa";
	struct chain_export *export = chain_export_new();
	struct chain_link link = {.seq = 5, .chain = "prj_a"};
	struct err err;

	CHECK_INT(chain_export_add(export, &link, /* is_partial= */ true, &err), 0);
	CHECK(chain_export_skip(export, "prj_a", 6, 9, hash, &err) < 0);
	CHECK(chain_export_skip(export, "prj_a", 2, 4, hash, &err) < 0);
	CHECK_INT(chain_export_skip(export, "prj_a", 5, 9, hash, &err), 0);
	CHECK_INT(chain_export_find(export, "prj_a")->last.seq, 9);
	CHECK_STR(chain_export_find(export, "prj_a")->last.hash, hash);
	chain_export_free(export);
}
