// SPDX-License-Identifier: Apache-2.0
#include "net/match/regex.h"
#include "test.h"

#include <string.h>

/* "yes", "no" or why it is refused. */
static const char *find(const char *expression, const char *text)
{
	const char *why = NULL;
	struct regex *r;
	bool matches;

	if (regex_new(expression, /* ignores_case= */ false, &r, &why) < 0)
		return why;
	matches = regex_matches(r, text);
	regex_free(r);
	return matches ? "yes" : "no";
}

TEST(an_expression_finds_what_re2_finds)
{
	static const struct {
		const char *expression, *text, *found;
	} rows[] = {
		{"b", "abc", "yes"},
		{"^b", "abc", "no"},
		{"^a.c$", "abc", "yes"},
		{"^a.c$", "abcd", "no"},
		{"a|b|", "x", "yes"},
		{"^(a|b|cd)$", "cd", "yes"},
		{"^(a|b|cd)$", "c", "no"},
		{"^a*$", "", "yes"},
		{"^a+$", "", "no"},
		{"^(ab?)+$", "aabab", "yes"},
		{"^(a*)*$", "aaab", "no"},
		{"^a{2,3}$", "a", "no"},
		{"^a{2,3}$", "aaa", "yes"},
		{"^a{2,3}$", "aaaa", "no"},
		{"^a{2,}$", "aaaaa", "yes"},
		{"^a{0}b$", "b", "yes"},
		{"^a+?b*?$", "aabb", "yes"},
		{"^/repos/[^/]+/(issues|pulls)(/\\d+)?$", "/repos/x/pulls/17", "yes"},
		{"^/repos/[^/]+/(issues|pulls)(/\\d+)?$", "/repos/x/y/pulls/17", "no"},
		{"^[a-c\\d_-]+$", "b7-_", "yes"},
		{"^[^a-c]$", "b", "no"},
		{"^[]a]$", "]", "yes"},
		{"^\\w+@\\w+\\.\\w+$", "a@b.c", "yes"},
		{"\\bfoo\\b", "a foo b", "yes"},
		{"\\bfoo\\b", "afoo", "no"},
		{"\\Boo", "foo", "yes"},
		{"(?i)^bearer", "BeArEr x", "yes"},
		{"^(?i:a)b$", "AB", "no"},
		{"^(?i:a)b$", "Ab", "yes"},
		{"^a.b$", "a\nb", "no"},
		{"(?s)^a.b$", "a\nb", "yes"},
		{"^(?P<name>x)$", "x", "yes"},
		{"^\\x41\\.\\t$", "A.\t", "yes"},
		{"^\xc3\xa9?$", "\xc3\xa9", "yes"}, /* a character is repeated whole */
		{"^\xc3\xa9?$", "\xc3", "no"},
		{"{", "{", "yes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(find(rows[i].expression, rows[i].text), rows[i].found) != 0)
			print_error("row %zu: %s in '%s'\n", i, rows[i].expression, rows[i].text);
		CHECK_STR(find(rows[i].expression, rows[i].text), rows[i].found);
	}
}

TEST(what_is_not_regular_or_not_known_is_refused)
{
	static const char *const rows[] = {
		"",       "(",      ")",       "a)",     "[a",     "[b-a]", "*a",
		"a**",    "(?=a)",  "(?!a)",   "(?<=a)", "(?>a)",  "\\1",   "\\pL",
		"[[:x:]", "(?m)^a", "a{1000}", "a{3,2}", "a{,2}x", "\\",    "(?i-x)a",
		"\\Q",    "(?P<a",  "a++",     "\\xg0",  "a{2",    "(?i",   "[\xc3\xa9]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *found = find(rows[i], "a");

		if (strcmp(found, "yes") == 0 || strcmp(found, "no") == 0)
			print_error("row %zu: %s\n", i, rows[i]);
		CHECK(strcmp(found, "yes") != 0 && strcmp(found, "no") != 0);
	}
}

TEST(an_expression_has_so_many_states_and_no_more)
{
	char deep[200] = "", tall[REGEX_TEXT_MAX + 2];

	CHECK(strstr(find("(a{200}){200}", "a"), "too large"));
	CHECK(strstr(find("((((a{16}){16}){16}){16}){16}", "a"), "too large"));
	memset(deep, '(', 40);
	CHECK(strstr(find(deep, "a"), "too deep"));
	memset(tall, 'a', sizeof(tall) - 1);
	tall[sizeof(tall) - 1] = '\0';
	CHECK(strstr(find(tall, "a"), "1024 bytes"));
}

TEST(an_expression_that_backtracks_elsewhere_takes_a_step_per_state_and_byte)
{
	char text[16384];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK_STR(find("^(a+)+$", text), "yes");
	CHECK_STR(find("^(a|a)*(a|aa)+b$", text), "no");
	CHECK_STR(find("(a?){60}a{60}b", text), "no");
	CHECK_STR(find("(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^a]", text), "no");
}
