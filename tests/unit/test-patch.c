// SPDX-License-Identifier: Apache-2.0
/* Unified diffs of two texts: what they look like, and that they lead from one to the other. */
#include "agent/archive/patch.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define CAP (1 << 20)

static void check_patch(const char *old, const char *now, const char *wanted)
{
	auto_call(buf_done) struct buf out = BUF_INIT(CAP);

	CHECK_INT(patch_make(old, strlen(old), now, strlen(now), &out), 0);
	CHECK_STR(buf_str(&out), wanted);
}

TEST(a_patch_is_what_diff_u_says)
{
	check_patch("a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
	check_patch("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
	check_patch("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
	check_patch("same\n", "same\n", "");
	check_patch("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n6\n7\n8\n9\n",
	            "@@ -2,7 +2,6 @@\n 2\n 3\n 4\n-5\n 6\n 7\n 8\n");
}

TEST(changes_far_apart_are_hunks_of_their_own)
{
	check_patch("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
	            "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
	            "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

TEST(a_last_line_without_its_newline_is_told)
{
	check_patch("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

TEST(a_patch_without_room_leaves_the_buffer_as_it_was)
{
	auto_call(buf_done) struct buf out = BUF_INIT(16);

	CHECK_INT(buf_append(&out, "kept", 4), 0);
	CHECK_INT(patch_make("a\nb\nc\n", 6, "d\ne\nf\n", 6, &out), -E2BIG);
	CHECK_STR(buf_str(&out), "kept");
}

TEST(bytes_that_are_no_text_are_told_from_text)
{
	CHECK(patch_is_text("h\xc3\xa4\n", 4));
	CHECK(patch_is_text("", 0));
	CHECK(!patch_is_text("a\0b", 3));
	CHECK(!patch_is_text("\xff\xfe", 2));
}

/* Reads the hunks over old and gives what they make of it. */
static void follow(const char *old, const char *patch, struct buf *ret)
{
	size_t at = 1; /* the old text's line that comes next */

	while (*patch) {
		size_t len = strcspn(patch, "\n") + 1, from, n;
		bool is_hunk = sscanf(patch, "@@ -%zu,%zu", &from, &n) == 2;

		while (is_hunk && at < from + (n == 0)) {
			size_t line = strcspn(old, "\n") + 1;

			CHECK_INT(buf_append(ret, old, line), 0);
			old += line;
			at++;
		}
		if (*patch == '+' || *patch == ' ')
			CHECK_INT(buf_append(ret, patch + 1, len - 1), 0);
		if (*patch == '-' || *patch == ' ') {
			CHECK_INT(strncmp(old, patch + 1, len - 1), 0);
			old += len - 1;
			at++;
		}
		patch += len;
	}
	CHECK_INT(buf_append(ret, old, strlen(old)), 0);
}

static void make_text(unsigned *seed, struct buf *ret, unsigned lines, unsigned kinds)
{
	for (unsigned i = 0; i < lines; i++) {
		*seed = *seed * 1103515245 + 12345;
		CHECK_INT(buf_printf(ret, "line %u\n", *seed / 65536 % kinds), 0);
	}
}

TEST(whatever_two_texts_are_their_patch_leads_from_one_to_the_other)
{
	for (unsigned seed = 1; seed <= 300; seed++) {
		auto_call(buf_done) struct buf old = BUF_INIT(CAP), now = BUF_INIT(CAP);
		auto_call(buf_done) struct buf patch = BUF_INIT(CAP), made = BUF_INIT(CAP);
		unsigned random = seed;

		make_text(&random, &old, seed % 40, 1 + seed % 7);
		make_text(&random, &now, seed % 37, 1 + seed % 7);
		CHECK_INT(patch_make(buf_str(&old), old.len, buf_str(&now), now.len, &patch), 0);
		follow(buf_str(&old), buf_str(&patch), &made);
		CHECK_STR(buf_str(&made), buf_str(&now));
	}
}

TEST(texts_with_nothing_in_common_cost_no_more_than_their_lines)
{
	auto_call(buf_done) struct buf old = BUF_INIT(CAP), now = BUF_INIT(CAP);
	auto_call(buf_done) struct buf patch = BUF_INIT(CAP), made = BUF_INIT(CAP);

	for (int i = 0; i < 5000; i++) {
		CHECK_INT(buf_printf(&old, "old %d\n", i), 0);
		CHECK_INT(buf_printf(&now, "new %d\n", i), 0);
	}
	CHECK_INT(patch_make(buf_str(&old), old.len, buf_str(&now), now.len, &patch), 0);
	follow(buf_str(&old), buf_str(&patch), &made);
	CHECK_STR(buf_str(&made), buf_str(&now));
}
