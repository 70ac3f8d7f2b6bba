// SPDX-License-Identifier: Apache-2.0
#include "net/match/glob.h"
#include "net/match/path.h"
#include "test.h"

#include <string.h>

/* "path", "path | second reading" or "refused". */
static const char *canonical(const char *text, size_t len)
{
	static char out[256];
	struct path p = {0};

	if (path_parse(text, len, &p, NULL) < 0)
		return "refused";
	(void)snprintf(out, sizeof(out), "%s%s%s", p.text, p.loose ? " | " : "",
	               p.loose ? p.loose : "");
	path_done(&p);
	return out;
}

TEST(a_path_has_one_form)
{
	static const struct {
		const char *text, *form;
	} rows[] = {
		{"/", "/"},
		{"//", "/"},
		{"/a/b", "/a/b"},
		{"/a/b/", "/a/b/"},
		{"//a///b//", "/a/b/"},
		{"/%61dmin", "/admin"},
		{"/%7euser/%2D%5f", "/~user/-_"},
		{"/a/./b", "/a/b"},
		{"/a/../b", "/b"},
		{"/a/b/..", "/a/"},
		{"/a/b/.", "/a/b/"},
		{"/a/..", "/"},
		{"/a/b/../../c", "/c"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/.%2e/b", "/b"},
		{"/a//../b", "/b"},
		{"/a/.../b", "/a/.../b"},
		{"/a/..b", "/a/..b"},
		{"/a%20b%c3%bc", "/a%20b%C3%BC"},
		{"/%25", "/%25"},
		{"/a/%252e%252e/b", "/a/%252e%252e/b | /b"},
		{"/a;x=1/b", "/a;x=1/b"},
		{"/a:b@c!$&'()*+,=[]", "/a:b@c!$&'()*+,=[]"},
		{"/@scope%2fname", "/@scope%2Fname | /@scope/name"},
		{"/a%5cb", "/a%5Cb | /a/b"},
		{"/a%2f%2Fb", "/a%2F%2Fb | /a/b"},
		{"/%2fadmin", "/%2Fadmin | /admin"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(canonical(rows[i].text, strlen(rows[i].text)), rows[i].form);
}

TEST(a_path_that_servers_read_differently_is_refused)
{
	static const char *const bad[] = {
		"",           "a",           "*",        "/..",         "/a/../..",
		"/%",         "/%2",         "/%zz",     "/%u0061",     "/%00",
		"/a%0d%0ab",  "/%7f",        "/%c0%ae/", "/%c0%af",     "/%ff",
		"/a b",       "/a\\b",       "/a#b",     "/a?b",        "/\xc3\xbc",
		"/a/..;/b",   "/a/..;x=1/",  "/a/.;/b",  "/..%2fadmin", "/a/..%5cb",
		"/a%2f../b",  "/a%2f..%2f",  "/a%2f.",   "/a/%2e%2e;",  "/a/..%3b/b",
		"/a%2f..;/b", "/%2e%2e%2fa", "/a/\"",    "/<",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_STR(canonical(bad[i], strlen(bad[i])), "refused");
	CHECK_STR(canonical("/a\0b", 4), "refused");
}

TEST(a_path_that_some_decode_further_has_a_second_reading)
{
	static const struct {
		const char *text, *loose; /* "": there is none */
	} rows[] = {
		{"/v1/%252e%252e/admin", "/admin"},
		{"/v1/%252E./admin", "/admin"},
		{"/v1/%25252e%2525252e/admin", "/admin"},
		{"/v1%252fadmin", "/v1/admin"},
		{"/v1%255cadmin", "/v1/admin"},
		{"/v1/%2561dmin", "/v1/admin"},
		{"/a%2fb%2F%2fc", "/a/b/c"},
		{"/a%2520b", ""},
		{"/a%25", ""},
		{"/a%252", ""},
		{"/100%25/x", ""},
		{"/plain", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct path p = {0};

		CHECK_INT(path_parse(rows[i].text, strlen(rows[i].text), &p, NULL), 0);
		CHECK_STR(p.loose ? p.loose : "", rows[i].loose);
		path_done(&p);
	}
	CHECK_STR(canonical("/%252e%252e/x", 13), "refused"); /* above the root */
	CHECK_STR(canonical("/a/%252e%252e;/b", 16), "refused");
}

TEST(a_path_parsed_again_is_the_same)
{
	static const char *const texts[] = {"/a//b/../%41%2f%3f", "/%7e/./x;y/..z/", "//%20%5C"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct path once = {0}, twice = {0};

		CHECK_INT(path_parse(texts[i], strlen(texts[i]), &once, NULL), 0);
		CHECK_INT(path_parse(once.text, strlen(once.text), &twice, NULL), 0);
		CHECK_STR(twice.text, once.text);
		path_done(&once);
		path_done(&twice);
	}
}

TEST(a_pattern_has_stars_within_and_across_dividers)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} rows[] = {
		{"/v1/models", "/v1/models", true},
		{"/v1/models", "/v1/model", false},
		{"/v1/models", "/v1/modelss", false},
		{"/v1/*", "/v1/", true},
		{"/v1/*", "/v1/a", true},
		{"/v1/*", "/v1/a/b", false},
		{"/v1/**", "/v1/a/b", true},
		{"/v1/**", "/v1", false},
		{"/*/x", "/a/x", true},
		{"/*/x", "/a/b/x", false},
		{"/**/x", "/a/b/x", true},
		{"/a?c", "/abc", true},
		{"/a?c", "/a/c", false},
		{"*", "", true},
		{"*", "a", true},
		{"**", "/a/b", true},
		{"*a*b*c", "xaybzc", true},
		{"*a*b*c", "xaybz", false},
		{"/repos/*/git/**.pack", "/repos/x/git/a/b.pack", true},
		{"/repos/*/git/**.pack", "/repos/x/y/git/a/b.pack", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_INT(glob_matches(rows[i].pattern, rows[i].text, '/'), rows[i].matches);
	CHECK(glob_matches("Bearer *", "Bearer a/b", '\0'));
}

TEST(a_pattern_of_many_stars_takes_no_longer)
{
	char pattern[GLOB_MAX + 1], text[16384];

	for (size_t i = 0; i < GLOB_MAX - 1; i += 2) {
		pattern[i] = '*';
		pattern[i + 1] = 'a';
	}
	pattern[GLOB_MAX - 1] = 'b';
	pattern[GLOB_MAX] = '\0';
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK_INT(glob_check(pattern, NULL), 0);
	CHECK(!glob_matches(pattern, text, '/'));
	text[sizeof(text) - 2] = 'b';
	CHECK(glob_matches(pattern, text, '/'));
}

TEST(a_pattern_that_means_nothing_is_refused)
{
	char long_one[GLOB_MAX + 2];

	memset(long_one, 'a', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	CHECK_INT(glob_check("", NULL), -EINVAL);
	CHECK_INT(glob_check("/***", NULL), -EINVAL);
	CHECK_INT(glob_check(long_one, NULL), -EINVAL);
	CHECK_INT(glob_check(long_one + 1, NULL), 0);
}
