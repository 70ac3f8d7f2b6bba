// SPDX-License-Identifier: Apache-2.0
/* Trace contexts from strangers: what the standard allows is taken, all else is as if it were not
 * there. */
#include "telemetry/trace_context.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static bool takes(const char *text)
{
	struct trace_context c;

	return trace_context_parse(text, &c) == 0;
}

TEST(a_context_is_read_and_written_as_it_came)
{
	static const char text[] = "00-" TRACE "-" SPAN "-01";
	char again[TRACEPARENT_SIZE];
	struct trace_context c;

	CHECK_INT(trace_context_parse(text, &c), 0);
	CHECK(c.is_sampled);
	CHECK_STR(c.state, "");
	trace_context_format(c.trace_id, c.span_id, c.is_sampled, again);
	CHECK_STR(again, text);
}

TEST(only_the_last_bit_of_the_flags_says_that_a_trace_is_recorded)
{
	static const struct {
		const char *text;
		bool is_sampled;
	} rows[] = {{"00-" TRACE "-" SPAN "-00", false},
	            {"00-" TRACE "-" SPAN "-02", false},
	            {"00-" TRACE "-" SPAN "-03", true},
	            {"00-" TRACE "-" SPAN "-ff", true}};
	struct trace_context c;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(trace_context_parse(rows[i].text, &c), 0);
		CHECK_INT(c.is_sampled, rows[i].is_sampled);
	}
}

TEST(a_later_version_may_say_more_behind_a_dash)
{
	CHECK(takes("01-" TRACE "-" SPAN "-01"));
	CHECK(takes("cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like"));
	CHECK(!takes("cc-" TRACE "-" SPAN "-01.what-the-future-will-be-like"));
	CHECK(!takes("00-" TRACE "-" SPAN "-01-what"));
}

TEST(what_breaks_the_rules_is_ignored)
{
	static const char *const bad[] = {
		"",
		"00",
		"00-" TRACE "-" SPAN,
		"00-" TRACE "-" SPAN "-0",
		"00-" TRACE "-" SPAN "-0g",
		"00-" TRACE "-" SPAN "-01 ",
		" 00-" TRACE "-" SPAN "-01",
		"ff-" TRACE "-" SPAN "-01",
		"0-" TRACE "-" SPAN "-01",
		"00-00000000000000000000000000000000-" SPAN "-01",
		"00-" TRACE "-0000000000000000-01",
		"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
		"00-" TRACE "-B7AD6B7169203331-01",
		"00_" TRACE "-" SPAN "-01",
		"00-" TRACE "0" SPAN "-01",
		"00-" TRACE "-" SPAN "-01,00-" TRACE "-" SPAN "-01",
		"00-" TRACE "-\xc3\xa9"
		"7ad6b71692033-01",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (takes(bad[i]))
			CHECK_STR(bad[i], "to be ignored");
}

TEST(a_state_is_passed_on_if_its_members_are_well_formed)
{
	CHECK(trace_state_is_valid("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
	CHECK(trace_state_is_valid("tenant@vendor=a b"));
	CHECK(trace_state_is_valid(" a=1 , ,b=2"));
	CHECK(!trace_state_is_valid(""));
	CHECK(!trace_state_is_valid(" ,, "));
	CHECK(!trace_state_is_valid("a"));
	CHECK(!trace_state_is_valid("=1"));
	CHECK(!trace_state_is_valid("a="));
	CHECK(!trace_state_is_valid("A=1"));
	CHECK(!trace_state_is_valid("a=1=2"));
	CHECK(!trace_state_is_valid("a=\x7f"));
	CHECK(!trace_state_is_valid("a=\xc3\xa9"));
}

TEST(a_state_that_is_too_long_is_not_passed_on)
{
	char text[TRACESTATE_SIZE + 40] = "";

	for (size_t i = 0; i < 33; i++)
		memcpy(text + 4 * i, "k=1,", 5);
	CHECK(!trace_state_is_valid(text)); /* more than 32 members */
	memset(text, 'a', TRACESTATE_SIZE);
	text[0] = 'k';
	text[1] = '=';
	text[TRACESTATE_SIZE] = '\0';
	CHECK(!trace_state_is_valid(text));
	text[258] = '\0';
	CHECK(trace_state_is_valid(text));
}
