// SPDX-License-Identifier: Apache-2.0
#include "net/policy/scrub.h"

#include "test.h"

#include <string.h>

#define TOKEN "sk-5ecret-0123"
#define STARS "**************"

static struct scrub *make(const char *headers, const char *scrub)
{
	auto_free char *text =
		xasprintf("{\"rules\": [{\"match\": {\"domains\": [\"a.test\"], \"ports\": [443]}, "
	                  "\"action\": {\"transform\": {\"headers\": {%s}, \"scrub\": [%s]}}}]}",
	                  headers, scrub);
	json_t *value = json_loads(text, 0, NULL);
	struct policy *policy = NULL;
	struct hostname name;
	struct scrub *s;
	struct err err;

	CHECK_INT(policy_read(value, "network", &policy, &err), 0);
	CHECK_INT(hostname_parse("a.test", strlen("a.test"), &name, NULL), 0);
	s = scrub_new(policy, &name, 443);
	CHECK(s);
	CHECK(!scrub_new(policy, &name, 80));
	CHECK_INT(hostname_parse("b.test", strlen("b.test"), &name, NULL), 0);
	CHECK(!scrub_new(policy, &name, 443));
	policy_free(policy);
	json_decref(value);
	return s;
}

static void add(struct buf *to, const struct buf *told)
{
	CHECK_INT(buf_append(to, told->data, told->len), 0);
}

/* In pieces of that size. */
static void check(struct scrub *s, const char *text, size_t piece, const char *wanted)
{
	auto_call(buf_done) struct buf got = BUF_INIT(1 << 20);

	for (size_t at = 0; at < strlen(text); at += piece)
		add(&got, scrub_feed(s, text + at, MIN(piece, strlen(text) - at)));
	add(&got, scrub_end(s));
	CHECK_INT(scrub_held(s), 0);
	CHECK_STR(buf_str(&got), wanted);
}

static void check_all(struct scrub *s, const char *text, const char *wanted)
{
	auto_free char *whole = xstrdup(text);

	CHECK_INT(strlen(text), strlen(wanted));
	for (size_t piece = 1; piece <= strlen(text); piece++)
		check(s, text, piece, wanted);
	scrub_text(s, whole, strlen(whole));
	CHECK_STR(whole, wanted);
}

TEST(a_credential_is_found_wherever_a_reply_is_cut)
{
	struct scrub *s = make("\"Authorization\": \"Bearer " TOKEN "\"", "\"authorization\"");

	check_all(s, "a Bearer " TOKEN " b", "a Bearer " STARS " b");
	check_all(s, TOKEN TOKEN "sk-5" TOKEN "s", STARS STARS "sk-5" STARS "s");
	check_all(s, "sk-5ecret-012 sk-5ecret-012", "sk-5ecret-012 sk-5ecret-012");
	check_all(s, "nothing", "nothing");
	scrub_free(s);
}

TEST(what_basic_encodes_is_hidden_too)
{
	/* user:pa55w0rd! */
	struct scrub *s =
		make("\"authorization\": \"basic dXNlcjpwYTU1dzByZCE=\"", "\"Authorization\"");

	check_all(s, "dXNlcjpwYTU1dzByZCE= user:pa55w0rd! pa55w0rd!",
	          "******************** ************** *********");
	scrub_free(s);
}

TEST(credentials_that_overlap_are_each_hidden_whole)
{
	struct scrub *s = make("\"a\": \"abcdefgh\", \"b\": \"efghijkl\", \"c\": \"aaaabaaaa\"",
	                       "\"a\", \"b\", \"c\"");

	check_all(s, "-abcdefghijkl-", "-************-");
	check_all(s, "aaaaabaaaaaaaab", "a*********aaaab");
	check_all(s, "aaaabaaaabaaaab", "**************b");
	scrub_free(s);
}

TEST(what_is_held_back_is_less_than_a_credential)
{
	struct scrub *s = make("\"a\": \"" TOKEN "\"", "\"a\"");

	CHECK_INT(scrub_feed(s, "yes", 3)->len, 2); /* its last letter could begin one */
	CHECK_INT(scrub_feed(s, "k-5", 3)->len, 0);
	CHECK_INT(scrub_held(s), 4);
	CHECK_INT(scrub_feed(s, "x", 1)->len, 5);
	CHECK_INT(scrub_feed(s, TOKEN, strlen(TOKEN) - 1)->len, 0);
	CHECK_STR(buf_str(scrub_end(s)), "sk-5ecret-012");
	scrub_free(s);
}

TEST(a_credential_begins_behind_its_scheme)
{
	CHECK_STR(scrub_credential("Bearer x"), "x");
	CHECK_STR(scrub_credential("AWS4-HMAC-SHA256 x"), "AWS4-HMAC-SHA256 x");
	CHECK_STR(scrub_credential("token  a b"), "a b");
	CHECK_STR(scrub_credential("sk-5 x"), "sk-5 x");
	CHECK_STR(scrub_credential("word"), "word");
	CHECK_STR(scrub_credential("word "), "word ");
	CHECK_STR(scrub_credential(""), "");
}
