// SPDX-License-Identifier: Apache-2.0
/* What a step prints, as a build reads it. */
#include "build/recipe/report.h"
#include "test.h"

#include <string.h>

static struct report out;
static char logged[4096];

static void on_log(const char *line, size_t len, void *arg)
{
	size_t at = strlen(logged);

	(void)arg;
	(void)snprintf(logged + at, sizeof(logged) - at, "%.*s|", (int)len, line);
}

static void feed(const char *text)
{
	report_feed(&out, text, strlen(text));
}

static void start(void)
{
	logged[0] = '\0';
	report_init(&out, on_log, NULL);
}

TEST(answers_and_progress_are_told_apart_from_the_log)
{
	start();
	feed("hello\r\ncloche:state "
	     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
	     "cloche:date 1700000000\nNeed to get 43.0 MB of archives.\n"
	     "dlstatus:3:50.5000:Retrieving file 3 of 9\n");
	CHECK_STR(logged, "hello|Need to get 43.0 MB of archives.|");
	CHECK_STR(out.state, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
	CHECK_INT(out.date, 1700000000);
	CHECK_INT(out.bytes_total, 43000000);
	CHECK_INT(out.bytes_done, 43000 * 505);
	CHECK_STR(out.doing, "Retrieving file 3 of 9");
	feed("pmstatus:libc6:12.3456:Unpacking libc6 (amd64)\n");
	CHECK_INT(out.permille, 123);
	CHECK_STR(out.doing, "Unpacking libc6 (amd64)");
	report_done(&out);
}

TEST(packages_and_languages_are_kept_as_they_are_told)
{
	auto_free char *packages = NULL;

	start();
	feed("cloche:package\tdeb\tgit\t1:2.47\tGPL-2, MIT\n");
	feed("cloche:package\tdeb\tshort\n");
	feed("cloche:language\tpython\t3.13.5\n");
	packages = json_dumps(out.packages, JSON_COMPACT);
	CHECK_STR(packages, "[{\"kind\":\"deb\",\"name\":\"git\",\"version\":\"1:2.47\","
	                    "\"licence\":\"GPL-2, MIT\"}]");
	CHECK_STR(json_string_value(json_object_get(out.languages, "python")), "3.13.5");
	report_done(&out);
}

TEST(an_error_is_the_last_line_that_says_so_and_else_the_last_of_all)
{
	start();
	feed("Reading\nE: Unable to locate package nosuch\nmore\n\n");
	CHECK_STR(out.error, "Unable to locate package nosuch");
	CHECK_STR(out.last, "more");
	feed("ERROR: No matching distribution found for x");
	report_end(&out);
	CHECK_STR(out.error, "No matching distribution found for x");
	report_done(&out);
}

TEST(lines_of_any_form_and_length_are_part_of_the_log)
{
	char longest[5000];

	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	start();
	feed(longest);
	feed("\ncloche:state zz\ncloche:nothing\ndlstatus:1\npmstatus:a:b:c\n\x01\xff\n");
	CHECK_INT(strcspn(logged, "|"), REPORT_LINE_MAX - 1);
	CHECK_STR(strchr(logged, '|'), "|cloche:state zz|cloche:nothing|dlstatus:1|\?\?|");
	CHECK_STR(out.state, "");
	CHECK_INT(out.permille, 0);
	report_done(&out);
}
