// SPDX-License-Identifier: Apache-2.0
#include "net/match/hostname.h"
#include "net/match/url.h"
#include "test.h"

#include <string.h>

#define TEXT(s) s, sizeof(s) - 1

static const char *canonical(const char *text, size_t len)
{
	static struct hostname name;

	return hostname_parse(text, len, &name, NULL) < 0 ? "refused" : name.text;
}

TEST(a_name_has_one_form)
{
	static const struct {
		const char *text, *name;
	} rows[] = {
		{"example.com", "example.com"},
		{"EXAMPLE.Com", "example.com"},
		{"example.com.", "example.com"},
		{"localhost", "localhost"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"r3---sn-4g5e6nz7.googlevideo.com", "r3---sn-4g5e6nz7.googlevideo.com"},
		{"_dmarc.my_bucket.example", "_dmarc.my_bucket.example"},
		{"1.0.0.127.in-addr.arpa", "1.0.0.127.in-addr.arpa"},
		{"3com.com", "3com.com"},
		{"0xff.com", "0xff.com"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(canonical(rows[i].text, strlen(rows[i].text)), rows[i].name);
}

TEST(what_could_be_read_as_another_name_is_none)
{
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {
		{TEXT("")},
		{TEXT(".")},
		{TEXT("..")},
		{TEXT(".example.com")},
		{TEXT("example..com")},
		{TEXT("example.com..")},
		{TEXT("evil.tld\0.example.com")},
		{TEXT("example.com\0")},
		{TEXT("\0example.com")},
		{TEXT("example.com\0.evil.tld")},
		{TEXT("exam ple.com")},
		{TEXT(" example.com")},
		{TEXT("example.com ")},
		{TEXT("example.com\r\n")},
		{TEXT("example.com\t")},
		{TEXT("evil.tld%00.example.com")},
		{TEXT("example%2ecom")},
		{TEXT("user@example.com")},
		{TEXT("evil.tld#.example.com")},
		{TEXT("evil.tld/.example.com")},
		{TEXT("evil.tld\\.example.com")},
		{TEXT("evil.tld?.example.com")},
		{TEXT("a,b")},
		{TEXT("example.com:80")},
		{TEXT("[example.com]")},
		{TEXT("b\xc3\xbc"
	              "cher.example")},
		{TEXT("example\xe3\x80\x82"
	              "com")}, /* the ideographic full stop, a dot to IDNA */
		{TEXT("\xef\xbd\x85xample.com")},
		{TEXT("xn--.example")},
		{TEXT("-a.example")},
		{TEXT("a-.example")},
		{TEXT("*.example.com")},
		{TEXT("2130706433")},
		{TEXT("0x7f000001")},
		{TEXT("0x7f.1")},
		{TEXT("127.1")},
		{TEXT("0177.0.0.1")},
		{TEXT("127.0.0.1")},
		{TEXT("127.0.0.1.")},
		{TEXT("1.2.3.4.5")},
		{TEXT("example.0x")},
		{TEXT("example.123")},
		{TEXT("::1")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(canonical(rows[i].text, rows[i].len), "refused");
}

TEST(labels_and_names_are_as_long_as_dns_has_them)
{
	char text[300];

	memset(text, 'a', sizeof(text));
	CHECK_INT(strlen(canonical(text, 63)), 63);
	CHECK_STR(canonical(text, 64), "refused");
	for (size_t i = 49; i < sizeof(text); i += 50)
		text[i] = '.';
	CHECK_INT(strlen(canonical(text, 253)), 253);
	CHECK_STR(canonical(text, 254), "refused");
	CHECK_STR(canonical(text, 299), "refused");
	/* A dot at the end is not counted. */
	text[253] = '.';
	CHECK_INT(strlen(canonical(text, 254)), 253);
}

static bool matches(const char *pattern, const char *text)
{
	struct hostname_pattern p;
	struct hostname name;

	CHECK_INT(hostname_pattern_parse(pattern, strlen(pattern), &p, NULL), 0);
	CHECK_INT(hostname_parse(text, strlen(text), &name, NULL), 0);
	return hostname_pattern_matches(&p, &name);
}

TEST(a_pattern_matches_whole_labels)
{
	CHECK(matches("allowed.com", "allowed.com"));
	CHECK(matches("Allowed.COM.", "allowed.com"));
	CHECK(!matches("allowed.com", "www.allowed.com"));
	CHECK(!matches("allowed.com", "evilallowed.com"));
	CHECK(!matches("allowed.com", "allowed.com.evil.tld"));
	CHECK(!matches("allowed.com", "allowed"));
	CHECK(matches("*.allowed.com", "www.allowed.com"));
	CHECK(matches("*.allowed.com", "a.b.allowed.com"));
	CHECK(!matches("*.allowed.com", "allowed.com"));
	CHECK(!matches("*.allowed.com", "evilallowed.com"));
	CHECK(!matches("*.allowed.com", "www.allowed.com.evil.tld"));
	CHECK(!matches("*.allowed.com", "com"));
	CHECK(matches("a.*.allowed.com", "a.b.allowed.com"));
	CHECK(!matches("a.*.allowed.com", "a.allowed.com"));
	CHECK(!matches("a.*.allowed.com", "a.b.c.allowed.com"));
	CHECK(!matches("a.*.allowed.com", "x.a.b.allowed.com"));
	CHECK(matches("*.*.allowed.com", "a.b.allowed.com"));
	CHECK(matches("*.*.allowed.com", "a.b.c.allowed.com"));
	CHECK(!matches("*.*.allowed.com", "b.allowed.com"));
	CHECK(matches("*", "localhost"));
	CHECK(matches("*", "a.b.c"));
}

TEST(a_star_stands_for_nothing_but_labels)
{
	static const char *const bad[] = {"*allowed.com", "a*.com", "**.com", "allowed.*", "*.*",
	                                  "a.*",          "*.1",    "*..com", "",          ".",
	                                  "https://*.a",  "*.a:443"};
	struct hostname_pattern p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(hostname_pattern_parse(bad[i], strlen(bad[i]), &p, NULL), -EINVAL);
}

TEST(localhost_is_known_with_all_below_it)
{
	struct hostname name;

	CHECK_INT(hostname_parse(TEXT("LocalHost"), &name, NULL), 0);
	CHECK(hostname_is_local(&name));
	CHECK_INT(hostname_parse(TEXT("a.localhost."), &name, NULL), 0);
	CHECK(hostname_is_local(&name));
	CHECK_INT(hostname_parse(TEXT("notlocalhost"), &name, NULL), 0);
	CHECK(!hostname_is_local(&name));
	CHECK_INT(hostname_parse(TEXT("localhost.com"), &name, NULL), 0);
	CHECK(!hostname_is_local(&name));
}

/* "host port", or "refused". */
static const char *authority(const char *text, size_t len)
{
	static char out[HOST_SIZE + 32];
	char name[HOST_SIZE];
	struct host host;
	uint16_t port;

	if (authority_parse(text, len, &host, &port, NULL) < 0)
		return "refused";
	host_format(&host, name);
	(void)snprintf(out, sizeof(out), "%s %u%s", name, port, host.is_name ? "" : " address");
	return out;
}

TEST(an_authority_is_a_name_or_an_address_and_perhaps_a_port)
{
	CHECK_STR(authority(TEXT("Example.com")), "example.com 0");
	CHECK_STR(authority(TEXT("example.com.:8080")), "example.com 8080");
	CHECK_STR(authority(TEXT("192.0.2.1:80")), "192.0.2.1 80 address");
	CHECK_STR(authority(TEXT("[2001:DB8::0:1]:443")), "[2001:db8::1] 443 address");
	CHECK_STR(authority(TEXT("[::ffff:127.0.0.1]")), "127.0.0.1 0 address");
}

TEST(a_host_field_with_tricks_in_it_is_refused)
{
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {
		{TEXT("")},
		{TEXT(":80")},
		{TEXT("h:")},
		{TEXT("h:0")},
		{TEXT("h:080")},
		{TEXT("h:65536")},
		{TEXT("h:99999999999")},
		{TEXT("h:80:80")},
		{TEXT("h:+80")},
		{TEXT("h:8\0")},
		{TEXT("u@h")},
		{TEXT("u:p@h")},
		{TEXT("h,i")},
		{TEXT("h i")},
		{TEXT("h%00")},
		{TEXT("h\0")},
		{TEXT("h..")},
		{TEXT("::1")},
		{TEXT("[::1")},
		{TEXT("[::1]x")},
		{TEXT("[]")},
		{TEXT("[")},
		{TEXT("[127.0.0.1]")},
		{TEXT("[fe80::1%eth0]")},
		{TEXT("[fe80::1%25eth0]")},
		{TEXT("127.1:80")},
		{TEXT("0x7f.0.0.1")},
		{TEXT("127.000.0.1")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(authority(rows[i].text, rows[i].len), "refused");
}

TEST(a_url_is_cut_into_its_parts)
{
	static const char text[] = "HTTPS://Example.com.:8443/a/b?c=d?e";
	struct url u;

	CHECK_INT(url_parse(text, strlen(text), &u, NULL), 0);
	CHECK_INT(u.scheme, URL_HTTPS);
	CHECK_STR(u.host.name.text, "example.com");
	CHECK_INT(u.port, 8443);
	CHECK_MEM(u.path, u.path_len, "/a/b", 4);
	CHECK_MEM(u.query, u.query_len, "c=d?e", 5);
	CHECK_INT(url_parse(TEXT("http://h?q"), &u, NULL), 0);
	CHECK_INT(u.port, 80);
	CHECK_MEM(u.path, u.path_len, "/", 1);
	CHECK_INT(url_parse(TEXT("tcp://[2001:db8::1]:22"), &u, NULL), 0);
	CHECK(!u.host.is_name);
}

TEST(a_url_with_a_user_a_fragment_or_another_scheme_is_refused)
{
	static const char *const bad[] = {"",           "example.com",       "ftp://h/",
	                                  "http:/h",    "http://",           "http:///x",
	                                  "http://u@h", "http://a.com@h/",   "http://h/#x",
	                                  "http://h/ ", "http://h/\xc3\xbc", "tcp://h",
	                                  "tcp://h:1/", "http://h\\@i/"};
	struct url u;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(url_parse(bad[i], strlen(bad[i]), &u, NULL), -EINVAL);
}
