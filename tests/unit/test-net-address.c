// SPDX-License-Identifier: Apache-2.0
#include "net/match/range.h"
#include "test.h"

#include <string.h>

static struct address make(const char *text)
{
	struct address a = {0};

	CHECK_INT(address_parse(text, strlen(text), &a, NULL), 0);
	return a;
}

static struct cidr make_cidr(const char *text)
{
	struct cidr c = {0};

	CHECK_INT(cidr_parse(text, strlen(text), &c, NULL), 0);
	return c;
}

TEST(an_address_has_one_form)
{
	static const struct {
		const char *text, *form;
	} rows[] = {
		{"192.0.2.1", "192.0.2.1"},
		{"2001:DB8:0:0::1", "2001:db8::1"},
		{"::", "::"},
		{"::ffff:127.0.0.1", "127.0.0.1"},
		{"::ffff:7f00:1", "127.0.0.1"},
		{"0:0:0:0:0:FFFF:a9fe:a9fe", "169.254.169.254"},
		{"::127.0.0.1", "::127.0.0.1"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct address a = make(rows[i].text);
		char text[ADDRESS_SIZE];

		address_format(&a, text);
		CHECK_STR(text, rows[i].form);
	}
}

TEST(short_octal_hex_and_zoned_addresses_are_refused)
{
	static const char *const bad[] = {"",
	                                  "127.1",
	                                  "2130706433",
	                                  "0x7f000001",
	                                  "0x7f.0.0.1",
	                                  "0177.0.0.1",
	                                  "127.0.0.01",
	                                  "1.2.3.4.5",
	                                  "1.2.3.256",
	                                  "1.2.3.4 ",
	                                  " 1.2.3.4",
	                                  "[::1]",
	                                  "fe80::1%eth0",
	                                  ":::",
	                                  "1::2::3",
	                                  "12345::",
	                                  "::1.2.3",
	                                  "localhost",
	                                  "1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:1"};
	struct address a;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(address_parse(bad[i], strlen(bad[i]), &a, NULL), -EINVAL);
	CHECK_INT(address_parse("1.2.3.4\0", 8, &a, NULL), -EINVAL);
}

TEST(a_range_has_what_its_prefix_says)
{
	struct cidr c = make_cidr("10.128.0.0/9");
	struct address in = make("10.255.0.1"), out = make("10.127.255.255");
	char text[CIDR_SIZE];

	CHECK(cidr_has(&c, &in));
	CHECK(!cidr_has(&c, &out));
	c = make_cidr("0.0.0.0/0");
	CHECK(cidr_has(&c, &out));
	out = make("2001:db8::");
	CHECK(!cidr_has(&c, &out));
	c = make_cidr("::/0");
	CHECK(cidr_has(&c, &out));
	c = make_cidr("2001:db8::1");
	CHECK(!cidr_has(&c, &out));
	cidr_format(&c, text);
	CHECK_STR(text, "2001:db8::1/128");
}

TEST(a_malformed_range_is_refused)
{
	static const char *const bad[] = {
		"",           "/8",          "10.0.0.0/",    "10.0.0.0/33",        "10.0.0.0/08",
		"10.0.0.0/a", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.1/8",         "10/8",
		"::/129",     "::1/64",      "a.com/8",      "::ffff:10.0.0.0/104"};
	struct cidr c;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(cidr_parse(bad[i], strlen(bad[i]), &c, NULL), -EINVAL);
	CHECK_INT(cidr_parse("10.0.0.0/8\0", 11, &c, NULL), -EINVAL);
}

TEST(every_closed_range_is_known_by_its_kind)
{
	static const struct {
		const char *address, *kind;
	} rows[] = {
		{"8.8.8.8", "public"},
		{"2606:4700::1111", "public"},
		{"0.0.0.0", "unspecified"},
		{"0.1.2.3", "unspecified"},
		{"::", "unspecified"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.254", "loopback"},
		{"::1", "loopback"},
		{"::ffff:127.0.0.1", "loopback"},
		{"10.0.0.1", "private"},
		{"172.16.0.1", "private"},
		{"172.31.255.255", "private"},
		{"172.32.0.0", "public"},
		{"192.168.1.1", "private"},
		{"fc00::1", "private"},
		{"fd12:3456::1", "private"},
		{"fec0::1", "private"},
		{"169.254.1.1", "link_local"},
		{"fe80::1", "link_local"},
		{"169.254.169.254", "metadata"},
		{"::ffff:169.254.169.254", "metadata"},
		{"169.254.170.2", "metadata"},
		{"168.63.129.16", "metadata"},
		{"100.100.100.200", "metadata"},
		{"192.0.0.192", "metadata"},
		{"fd00:ec2::254", "metadata"},
		{"fd20:ce::254", "metadata"},
		{"100.64.0.1", "shared"},
		{"224.0.0.1", "multicast"},
		{"ff02::1", "multicast"},
		{"255.255.255.255", "broadcast"},
		{"240.0.0.1", "reserved"},
		{"192.0.2.1", "documentation"},
		{"2001:db8::1", "documentation"},
		{"198.18.0.1", "benchmark"},
		{"2001:2::1", "benchmark"},
		{"4000::1", "reserved"},
		{"100::1", "reserved"},
		/* IPv4 inside IPv6: the inner kind where it is closed. */
		{"::127.0.0.1", "loopback"},
		{"::8.8.8.8", "transition"},
		{"::ffff:0:10.0.0.1", "private"},
		{"64:ff9b::10.0.0.1", "private"},
		{"64:ff9b::169.254.169.254", "metadata"},
		{"64:ff9b::8.8.8.8", "transition"},
		{"64:ff9b:1::1", "transition"},
		{"2002:7f00:1::", "loopback"},
		{"2002:a9fe:a9fe::", "metadata"},
		{"2002:808:808::", "transition"},
		{"2001:0:0:0:0:0:80ff:fffe", "loopback"},
		{"2001::1", "reserved"},
	};
	static const struct range_site site;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct address a = make(rows[i].address);

		CHECK_STR(range_kind_name(range_kind_of(&site, &a)), rows[i].kind);
		CHECK_INT(range_is_open(&site, &a, NULL, 0), strcmp(rows[i].kind, "public") == 0);
	}
}

static bool opens(const struct range_site *site, const char *address, const char *range)
{
	struct cidr named = make_cidr(range);
	struct address a = make(address);

	return range_is_open(site, &a, &named, 1);
}

TEST(a_closed_address_opens_to_a_range_that_names_it)
{
	static const struct range_site site;

	CHECK(opens(&site, "10.1.2.3", "10.0.0.0/8"));
	CHECK(opens(&site, "10.1.2.3", "10.1.2.0/24"));
	CHECK(!opens(&site, "10.1.2.3", "0.0.0.0/0"));
	CHECK(!opens(&site, "10.1.2.3", "8.0.0.0/5"));
	CHECK(!opens(&site, "10.1.2.3", "10.2.0.0/16"));
	CHECK(opens(&site, "fd12::1", "fd12::/16"));
	CHECK(!opens(&site, "fd12::1", "::/0"));
}

TEST(what_is_the_operators_opens_only_where_the_operator_lets_it)
{
	struct cidr own = make_cidr("198.41.0.4");
	struct cidr may_open[] = {make_cidr("127.0.0.0/8"), make_cidr("198.41.0.4"),
	                          make_cidr("169.254.169.254"), make_cidr("fe80::/10")};
	struct range_site closed = {.own = &own, .n_own = 1};
	struct range_site lent = {
		.own = &own, .n_own = 1, .may_open = may_open, .n_may_open = ARRAY_SIZE(may_open)};
	static const char *const operators[] = {"127.0.0.1", "198.41.0.4", "169.254.169.254",
	                                        "fe80::1"};

	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		CHECK(!opens(&closed, operators[i], operators[i]));
		CHECK(!opens(&closed, operators[i], "0.0.0.0/0"));
		CHECK(!opens(&lent, operators[i], "::/0"));
		CHECK(opens(&lent, operators[i], operators[i]));
	}
	CHECK(!opens(&lent, "169.254.1.1", "169.254.1.1"));
	CHECK(!opens(&lent, "0.0.0.0", "0.0.0.0"));
	CHECK(opens(&closed, "10.0.0.1", "10.0.0.1"));
}

TEST(the_daemons_own_ports_are_its_own_on_every_address_of_the_host)
{
	static const uint16_t ports[] = {7070, 7071};
	struct cidr own[] = {make_cidr("198.41.0.4"), make_cidr("fe80::4")};
	struct cidr other = make_cidr("198.41.0.5");
	struct range_site site = {.own = own, .n_own = 2, .ports = ports, .n_ports = 2};
	static const char *const hosts[] = {"198.41.0.4", "fe80::4", "127.0.0.1",
	                                    "127.9.9.9",  "::1",     "64:ff9b::198.41.0.4"};

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct address a = make_cidr(hosts[i]).first;

		CHECK(range_is_daemon(&site, &a, 7070) && range_is_daemon(&site, &a, 7071));
		CHECK(!range_is_daemon(&site, &a, 80));
	}
	CHECK(!range_is_daemon(&site, &other.first, 7070));
}

TEST(a_metadata_address_opens_to_itself_alone)
{
	static const struct cidr all[] = {{.first = {.bits = 32}}, {.first = {.bits = 128}}};
	static const struct range_site site = {.may_open = all, .n_may_open = ARRAY_SIZE(all)};

	CHECK(!opens(&site, "169.254.169.254", "0.0.0.0/0"));
	CHECK(!opens(&site, "169.254.169.254", "169.254.0.0/16"));
	CHECK(!opens(&site, "169.254.169.254", "169.254.169.254/31"));
	CHECK(opens(&site, "169.254.169.254", "169.254.169.254/32"));
	CHECK(!opens(&site, "100.100.100.200", "100.64.0.0/10"));
	CHECK(!opens(&site, "fd00:ec2::254", "fd00::/8"));
}

TEST(nothing_opens_what_no_connection_should_reach)
{
	static const struct range_site site;

	CHECK(!opens(&site, "0.0.0.0", "0.0.0.0/32"));
	CHECK(!opens(&site, "::", "::/128"));
	CHECK(!opens(&site, "224.0.0.1", "224.0.0.1/32"));
	CHECK(!opens(&site, "255.255.255.255", "255.255.255.255/32"));
}

TEST(an_address_that_stands_for_another_needs_both_open)
{
	static const struct range_site site;
	struct address a = make("64:ff9b::10.0.0.1");
	struct cidr named[] = {make_cidr("64:ff9b::/96"), make_cidr("10.0.0.0/8")};

	CHECK(opens(&site, "64:ff9b::8.8.8.8", "64:ff9b::/96"));
	CHECK(!range_is_open(&site, &a, named, 1));
	CHECK(range_is_open(&site, &a, named, 2));
	CHECK(!range_is_open(&site, &a, named + 1, 1));
}

TEST(addresses_of_the_host_are_closed_though_public)
{
	struct cidr own = make_cidr("198.41.0.4"), never = make_cidr("10.9.0.0/16");
	struct range_site site = {.own = &own, .n_own = 1, .never = &never, .n_never = 1};
	struct address a = make("198.41.0.4"), b = make("64:ff9b::198.41.0.4");

	CHECK_STR(range_kind_name(range_kind_of(&site, &a)), "host");
	CHECK_STR(range_kind_name(range_kind_of(&site, &b)), "host");
	CHECK(!opens(&site, "198.41.0.4", "198.41.0.0/24"));
	CHECK(!opens(&site, "198.41.0.4", "198.41.0.4"));
	/* What the operator closed stays so. */
	CHECK(opens(&site, "10.8.0.1", "10.0.0.0/8"));
	CHECK(!opens(&site, "10.9.0.1", "10.9.0.1/32"));
}
