// SPDX-License-Identifier: Apache-2.0
#include "net/packet/dns.h"
#include "test.h"

#include <string.h>

#define TEXT(s)                       s, sizeof(s) - 1
#define CHECK_BYTES(got, len, wanted) CHECK_MEM(got, len, wanted, sizeof(wanted) - 1)
#define Q                             "\x12\x34\x01\x00\0\1\0\0\0\0\0\0" /* id, RD, one question */
#define NAME                          "\7example\3com\0"
#define IN_A                          "\0\1\0\1"

static int parse(const char *data, size_t len, struct dns_query *q)
{
	*q = (struct dns_query){0};
	return dns_query_parse(data, len, q);
}

static struct hostname make(const char *text)
{
	struct hostname name = {0};

	CHECK_INT(hostname_parse(text, strlen(text), &name, NULL), 0);
	return name;
}

TEST(a_query_is_read_to_its_last_byte)
{
	struct dns_query q;

	CHECK_INT(parse(TEXT(Q "\7eXAmple\3Com\0" IN_A), &q), DNS_NOERROR);
	CHECK_INT(q.id, 0x1234);
	CHECK_STR(q.name.text, "example.com");
	CHECK_INT(q.type, DNS_A);
	CHECK(q.wants_recursion && !q.has_edns);
	CHECK_INT(parse(TEXT("\x12\x34\x01\x20\0\1\0\0\0\0\0\1" NAME IN_A
	                     "\0\0\x29\x10\0\0\0\0\0\0\0"),
	                &q),
	          DNS_NOERROR);
	CHECK(q.has_edns);
	CHECK_INT(q.udp_size, 4096);
}

TEST(a_query_that_carries_more_is_answered_with_an_error)
{
	static const struct {
		const char *data;
		size_t len;
		int rcode;
	} rows[] = {
		{TEXT(""), -EINVAL},
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0"), -EINVAL},
		{TEXT("\x12\x34\x81\x00\0\1\0\0\0\0\0\0" NAME IN_A), -EINVAL},    /* a response */
		{TEXT("\x12\x34\x28\x00\0\1\0\0\0\0\0\0" NAME IN_A), DNS_NOTIMP}, /* UPDATE */
		{TEXT("\x12\x34\x20\x00\0\1\0\0\0\0\0\0" NAME IN_A), DNS_NOTIMP}, /* NOTIFY */
		{TEXT("\x12\x34\x03\x00\0\1\0\0\0\0\0\0" NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\0\0\0\0\0\0\0"), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\2\0\0\0\0\0\0" NAME IN_A NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff" NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\1\0\1\0\0\0\0" NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\1\0\0" NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0\2" NAME IN_A), DNS_FORMERR},
		{TEXT(Q), DNS_FORMERR},
		{TEXT(Q NAME), DNS_FORMERR},
		{TEXT(Q NAME "\0\1\0"), DNS_FORMERR},
		{TEXT(Q NAME IN_A "x"), DNS_FORMERR},
		{TEXT(Q "\xc0\x0c" IN_A), DNS_FORMERR}, /* a pointer to itself */
		{TEXT(Q "\1a\xc0\x0c" IN_A), DNS_FORMERR},
		{TEXT(Q "\x40" IN_A), DNS_FORMERR},
		{TEXT(Q NAME "\0\1\0\3"), DNS_REFUSED}, /* class CHAOS */
		{TEXT(Q NAME "\0\1\0\xff"), DNS_REFUSED},
		{TEXT(Q "\0" IN_A), DNS_REFUSED}, /* the root */
		{TEXT(Q "\x15"
	                "evil.tld\0.allowed.com\0" IN_A),
	         DNS_REFUSED},
		{TEXT(Q "\x0b"
	                "example.com\0" IN_A),
	         DNS_REFUSED}, /* a dot within a label */
		{TEXT(Q "\3a b\3com\0" IN_A), DNS_REFUSED},
		{TEXT(Q "\1*\3com\0" IN_A), DNS_REFUSED},
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0\1" NAME IN_A), DNS_FORMERR},
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0\1" NAME IN_A "\0\0\xfa\0\xff\0\0\0\0\0\0"),
	         DNS_FORMERR}, /* TSIG */
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0\1" NAME IN_A "\0\0\x29\x10\0\0\1\0\0\0\0"),
	         DNS_FORMERR}, /* EDNS 1 */
		{TEXT("\x12\x34\x01\x00\0\1\0\0\0\0\0\1" NAME IN_A "\0\0\x29\x10\0\0\0\0\0\0\4"),
	         DNS_FORMERR},
	};
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_INT(parse(rows[i].data, rows[i].len, &q), rows[i].rcode);
}

TEST(a_name_longer_than_dns_allows_is_malformed)
{
	auto_call(buf_done) struct buf packet = BUF_INIT(1024);
	char label[64];
	struct dns_query q;

	label[0] = 63;
	memset(label + 1, 'a', 63);
	CHECK_INT(buf_append(&packet, Q, 12), 0);
	for (int i = 0; i < 4; i++)
		CHECK_INT(buf_append(&packet, label, sizeof(label)), 0);
	CHECK_INT(buf_append(&packet, "\0" IN_A, 5), 0);
	CHECK_INT(parse(packet.data, packet.len, &q), DNS_FORMERR);
}

TEST(an_answer_echoes_the_question_as_it_came)
{
	auto_call(buf_done) struct buf out = BUF_INIT(2048);
	struct address addresses[] = {
		address_from_v4((const uint8_t *)"\xc6\x29\0\4"),
		address_from_v6((const uint8_t *)"\x20\1\5\3\xba>\0\0\0\0\0\0\0\2\0\x30")};
	struct dns_query q;

	CHECK_INT(parse(TEXT(Q "\7eXAmple\3Com\0" IN_A), &q), DNS_NOERROR);
	CHECK_INT(dns_answer_write(&out, &q, DNS_NOERROR, addresses, 2, 60, false), 0);
	CHECK_BYTES(out.data, out.len,
	            ("\x12\x34\x81\x80\0\1\0\1\0\0\0\0\7eXAmple\3Com\0" IN_A
	             "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x29\0\4"));
}

TEST(types_that_open_side_doors_have_no_data)
{
	static const char types[] = {65, 64, 16, 10, (char)255, 15, 12, 33, 5, 6, 2};
	struct address a = address_from_v4((const uint8_t *)"\xc6\x29\0\4");

	for (size_t i = 0; i < sizeof(types); i++) {
		auto_call(buf_done) struct buf out = BUF_INIT(2048);
		char packet[] = Q NAME IN_A;
		struct dns_query q;

		packet[sizeof(packet) - 4] = types[i];
		CHECK_INT(parse(packet, sizeof(packet) - 1, &q), DNS_NOERROR);
		CHECK_INT(q.type, (unsigned char)types[i]);
		CHECK_INT(dns_answer_write(&out, &q, DNS_NOERROR, &a, 1, 60, false), 0);
		CHECK_BYTES(out.data, 12, ("\x12\x34\x81\x80\0\1\0\0\0\0\0\0"));
		CHECK_INT(out.len, sizeof(packet) - 1);
	}
}

TEST(an_error_has_no_addresses_and_keeps_what_could_be_read)
{
	auto_call(buf_done) struct buf out = BUF_INIT(2048);
	struct address a = address_from_v4((const uint8_t *)"\xc6\x29\0\4");
	struct dns_query q;

	CHECK_INT(parse(TEXT(Q NAME IN_A), &q), DNS_NOERROR);
	CHECK_INT(dns_answer_write(&out, &q, DNS_NXDOMAIN, &a, 1, 60, false), 0);
	CHECK_BYTES(out.data, out.len, ("\x12\x34\x81\x83\0\1\0\0\0\0\0\0" NAME IN_A));
	buf_truncate(&out, 0);
	CHECK_INT(parse(TEXT("\x12\x34\x28\x00\0\1\0\0\0\0\0\0" NAME IN_A), &q), DNS_NOTIMP);
	CHECK_INT(dns_answer_write(&out, &q, DNS_NOTIMP, NULL, 0, 0, false), 0);
	CHECK_BYTES(out.data, out.len, ("\x12\x34\xa8\x84\0\0\0\0\0\0\0\0"));
}

TEST(what_does_not_fit_is_truncated_by_udp_and_whole_by_tcp)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096);
	struct address many[DNS_ADDRESSES_MAX];
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = address_from_v4((const uint8_t *)"\xc6\x29\0\4");
	CHECK_INT(parse(TEXT(Q NAME IN_A), &q), DNS_NOERROR);
	CHECK_INT(dns_answer_write(&out, &q, DNS_NOERROR, many, ARRAY_SIZE(many), 1, false), 0);
	CHECK_BYTES(out.data, out.len, ("\x12\x34\x83\x80\0\1\0\0\0\0\0\0" NAME IN_A));
	buf_truncate(&out, 0);
	CHECK_INT(dns_answer_write(&out, &q, DNS_NOERROR, many, ARRAY_SIZE(many), 1, true), 0);
	CHECK_INT(out.len, 12 + 17 + 16 * ARRAY_SIZE(many));
	/* With EDNS there is room, and an EDNS record comes back. */
	buf_truncate(&out, 0);
	q.has_edns = true;
	q.udp_size = 4096;
	CHECK_INT(dns_answer_write(&out, &q, DNS_NOERROR, many, ARRAY_SIZE(many), 1, false), 0);
	CHECK_INT(out.len, 12 + 17 + 16 * ARRAY_SIZE(many) + 11);
	CHECK_INT((unsigned char)out.data[11], 1);
}

TEST(the_name_that_was_judged_is_the_name_that_is_asked)
{
	auto_call(buf_done) struct buf out = BUF_INIT(512);
	struct hostname name = make("Example.com.");
	struct dns_query q;

	CHECK_INT(dns_query_write(&out, 0xbeef, &name, DNS_AAAA), 0);
	CHECK_INT(parse(out.data, out.len, &q), DNS_NOERROR);
	CHECK_INT(q.id, 0xbeef);
	CHECK_INT(q.type, DNS_AAAA);
	CHECK(hostname_is_equal(&q.name, &name));
}

#define R  "\x12\x34\x81\x80\0\1\0"
#define PA "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" /* example.com A, 60 s */

/* "address address … ttl", or why not. */
static const char *answer(const char *data, size_t len)
{
	static char text[256];
	struct hostname name = make("example.com");
	struct dns_response response = {0};
	const char *why = "";
	size_t at = 0;

	if (dns_response_parse(data, len, 0x1234, &name, DNS_A, &response, &why) < 0)
		return why;
	for (size_t i = 0; i < response.n_addresses; i++) {
		char address[ADDRESS_SIZE];

		address_format(&response.addresses[i], address);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s ", address);
	}
	(void)snprintf(text + at, sizeof(text) - at, "%u%s", response.ttl_s,
	               response.is_truncated ? " truncated" : "");
	return text;
}

TEST(addresses_are_taken_along_the_aliases)
{
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A PA "\1\2\3\4")), "1.2.3.4 60");
	CHECK_STR(answer(TEXT(R "\2\0\0\0\0" NAME IN_A PA "\1\2\3\4" PA "\5\6\7\x8")),
	          "1.2.3.4 5.6.7.8 60");
	CHECK_STR(answer(TEXT(R "\2\0\0\0\0" NAME IN_A "\xc0\x0c\0\5\0\1\0\0\0\x1e\0\4\1a\xc0\x0c"
	                        "\xc0\x29\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4")),
	          "1.2.3.4 30");
	/* The alias behind what it leads to. */
	CHECK_STR(answer(TEXT(R "\2\0\0\0\0" NAME IN_A "\1A\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4"
	                        "\xc0\x0c\0\5\0\1\0\0\0\x1e\0\4\1a\xc0\x0c")),
	          "1.2.3.4 30");
	CHECK_STR(answer(TEXT(R "\0\0\0\0\0" NAME IN_A)), "0");
	CHECK_STR(answer(TEXT("\x12\x34\x83\x80\0\1\0\0\0\0\0\0" NAME IN_A)), "0 truncated");
	/* A question in other capitals is the same question. */
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0\7EXAMPLE\3com\0" IN_A PA "\1\2\3\4")), "1.2.3.4 60");
}

TEST(records_that_do_not_belong_are_passed_over)
{
	/* Another owner, another class, another type; then the authority section. */
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\4evil\0\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4")),
	          "0");
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\1\0\3\0\0\0\x3c\0\4\1\2\3\4")),
	          "0");
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\x41\0\1\0\0\0\x3c\0\4\1\2\3\4")),
	          "0");
	CHECK_STR(answer(TEXT(R "\0\0\1\0\0" NAME IN_A PA "\1\2\3\4")), "0");
}

TEST(an_answer_to_another_question_is_none_of_ours)
{
	static const char *const wrong = "is not the answer to this query";
	static const char *const other = "answers another question";

	CHECK_STR(answer(TEXT("\x12\x35\x81\x80\0\1\0\1\0\0\0\0" NAME IN_A PA "\1\2\3\4")), wrong);
	CHECK_STR(answer(TEXT("\x12\x34\x01\x80\0\1\0\1\0\0\0\0" NAME IN_A PA "\1\2\3\4")), wrong);
	CHECK_STR(answer(TEXT("\x12\x34\xa1\x80\0\1\0\1\0\0\0\0" NAME IN_A PA "\1\2\3\4")), wrong);
	CHECK_STR(answer(TEXT("\x12\x34\x81\x80\0\0\0\1\0\0\0\0" PA "\1\2\3\4")), wrong);
	CHECK_STR(answer(TEXT("\x12\x34\x81\x80")), wrong);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0\7exampl3\3com\0" IN_A PA "\1\2\3\4")), other);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME "\0\x1c\0\1" PA "\1\2\3\4")), other);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME "\0\1\0\3" PA "\1\2\3\4")), other);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0\xc0\x0c" IN_A PA "\1\2\3\4")), other);
}

TEST(hostile_answers_end)
{
	static const char *const bad = "has malformed answers or aliases without an end";

	/* Pointers to themselves, forwards, and in a circle. */
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x1d\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4")),
	          bad);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x2f\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4")),
	          bad);
	CHECK_STR(
		answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\1a\xc0\x1d\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4")),
		bad);
	/* Aliases in a circle. */
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\5\0\1\0\0\0\x1e\0\2\xc0\x0c")),
	          bad);
	/* Lengths. */
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\3\1\2\3")),
	          bad);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\1\2\3")),
	          bad);
	CHECK_STR(answer(TEXT(R "\2\0\0\0\0" NAME IN_A PA "\1\2\3\4")), bad);
	CHECK_STR(answer(TEXT(R "\1\0\0\0\0" NAME IN_A "\xc0\x0c\0\5\0\1\0\0\0\x1e\0\4\1a\0x")),
	          bad);
	CHECK_STR(answer(TEXT("\x12\x34\x81\x80\0\1\xff\xff\0\0\0\0" NAME IN_A PA "\1\2\3\4")),
	          "has more than 128 answers");
}

TEST(an_address_in_disguise_comes_out_as_itself)
{
	static const char packet[] =
		"\x12\x34\x81\x80\0\1\0\1\0\0\0\0" NAME "\0\x1c\0\1"
		"\xc0\x0c\0\x1c\0\1\0\0\0\x3c\0\x10\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1";
	struct hostname name = make("example.com");
	struct dns_response response = {0};
	char text[ADDRESS_SIZE];

	CHECK_INT(dns_response_parse(packet, sizeof(packet) - 1, 0x1234, &name, DNS_AAAA, &response,
	                             NULL),
	          0);
	address_format(&response.addresses[0], text);
	CHECK_STR(text, "127.0.0.1");
}
