// SPDX-License-Identifier: Apache-2.0
/* What a .dockerignore leaves out. */
#include "cli/copy/ignore.h"
#include "test.h"

#include <string.h>

static void check(const char *lines, const char *path, bool is_left_out)
{
	struct ignore *g = ignore_new(lines, strlen(lines));

	if (ignore_has(g, path) != is_left_out)
		CHECK_STR(path, is_left_out ? "should be left out" : "should be sent");
	ignore_free(g);
}

TEST(a_pattern_is_of_paths_and_holds_for_what_is_below)
{
	check("node_modules\n", "node_modules/a/b", true);
	check("node_modules\n", "web/node_modules", false);
	check("**/node_modules\n", "web/node_modules/x", true);
	check("**/node_modules\n", "node_modules", true);
	check("*.log\n", "a.log", true);
	check("*.log\n", "logs/a.log", false);
	check("**/*.log\n", "logs/deep/a.log", true);
	check("/build/\n", "build/x", true);
	check("./a/../b\n", "b", true);
	check("a?c\n", "abc", true);
	check("a?c\n", "a/c", false);
	check("[a-c]x\n", "bx", true);
	check("[^a-c]x\n", "bx", false);
	check("a/**\n", "a/b/c", true);
	check("a/**/c\n", "a/c", true);
	check("# *\n\n", "x", false);
	check("\\*\n", "*", true);
	check("\\*\n", "x", false);
}

TEST(the_last_line_that_matches_decides)
{
	check("*\n!src\n", "src/a.c", false);
	check("*\n!src\n", "other", true);
	check("*\n!src\nsrc/*.o\n", "src/a.o", true);
	check("*.md\n!README.md\n", "README.md", false);
}

TEST(many_stars_take_no_time)
{
	check("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n",
	      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
}

TEST(nothing_is_left_out_without_a_file)
{
	CHECK(!ignore_has(NULL, "x"));
}
