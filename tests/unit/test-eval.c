// SPDX-License-Identifier: Apache-2.0
/* Files of evals, and what models answer. What runs is tested on a daemon. */
#include "cli/eval/eval_file.h"
#include "cli/eval/eval_wire.h"
#include "test.h"

#include <string.h>

static struct err err;

static struct eval_suite *suite_of(const char *name, const char *text)
{
	const struct eval_overrides nothing = {.threshold = -1};
	struct eval_suite *suite = NULL;
	json_t *tree = NULL;

	if (eval_file_parse(name, text, strlen(text), &tree, &err) == 0 &&
	    eval_suite_new(name, tree, &nothing, &suite, &err) < 0)
		return NULL;
	return suite;
}

TEST(a_case_has_its_file_s_settings_unless_it_has_its_own)
{
	auto_call(eval_suite_freep) struct eval_suite *s =
		suite_of("a.toml", "repeat = 3\ntimeout = \"5s\"\npackages = [\"numpy\"]\n"
	                           "[case.one]\ncode = \"1\"\n"
	                           "[case.two]\ncode = \"2\"\nrepeat = 7\npackages = []\n");

	CHECK(s);
	CHECK_INT(s->n_cases, 2);
	CHECK_STR(s->cases[0].name, "one");
	CHECK_INT(s->cases[0].settings.repeat, 3);
	CHECK_INT(s->cases[0].settings.timeout_ms, 5000);
	CHECK_INT(s->cases[0].settings.packages.n, 1);
	CHECK_INT(s->cases[1].settings.repeat, 7);
	CHECK_INT(s->cases[1].settings.packages.n, 0);
}

TEST(a_case_that_says_what_it_starts_from_has_nothing_of_its_file_s)
{
	auto_call(eval_suite_freep) struct eval_suite *s =
		suite_of("a.toml", "template = \"host\"\n"
	                           "[case.same]\ncode = \"1\"\n"
	                           "[case.image]\ncode = \"2\"\nimage = \"python:3.12-slim\"\n"
	                           "[case.snapshot]\ncode = \"3\"\nsnapshot = \"ready\"\n");

	CHECK(s);
	CHECK_STR(s->cases[0].settings.template, "host");
	CHECK_STR(s->cases[1].settings.image, "python:3.12-slim");
	CHECK(!s->cases[1].settings.template);
	CHECK_STR(s->cases[2].settings.snapshot, "ready");
	CHECK(!s->cases[2].settings.template && !s->cases[2].settings.image);
}

TEST(text_over_several_lines_is_taken_as_it_stands)
{
	auto_call(eval_suite_freep) struct eval_suite *s =
		suite_of("a.toml", "[case.a]\ncode = '''\nif x:\n\tprint(\"\\n''\")\n'''\n"
	                           "output = \"\"\"a\\tb\nc\"\"\"\n");

	CHECK(s);
	CHECK_STR(s->cases[0].code, "if x:\n\tprint(\"\\n''\")\n");
	CHECK_STR(s->cases[0].claims[0].value, "a\tb\nc");
}

TEST(toml_and_json_give_the_same_case)
{
	auto_call(eval_suite_freep) struct eval_suite *toml =
		suite_of("a.toml", "[case.a]\ncommand = \"ls\"\nmax_cost = 0.05\n[case.a.files]\n"
	                           "\"x/y.txt\" = \"z\"\n");
	auto_call(eval_suite_freep) struct eval_suite *json = suite_of(
		"a.json", "{\"case\": {\"a\": {\"command\": \"ls\", \"max_cost\": \"0.05\", "
			  "\"files\": {\"x/y.txt\": \"z\"}}}}");

	CHECK(toml && json);
	CHECK_INT(toml->cases[0].max_cost_nano, 50000000);
	CHECK_INT(json->cases[0].max_cost_nano, 50000000);
	CHECK_INT(json_equal(toml->cases[0].files, json->cases[0].files), 1);
}

TEST(a_section_is_no_value_and_a_value_no_section)
{
	CHECK(!suite_of("a.toml", "case = 5\n[case.a]\ncode = \"1\"\n"));
	CHECK_STR(err.message, "a.toml:2: case.a: is given as a value and as a section");
	CHECK(!suite_of("a.toml", "[case.a b]\ncode = \"1\"\n"));
	CHECK_STR(err.message, "a.toml:1: ']' was expected after the section's name");
	CHECK(!suite_of("a.json", "{\"case\": {\"a b\": {\"code\": \"1\"}}}"));
	CHECK_STR(err.message,
	          "a.json: case: 'a b' is no name: letters, digits, - and _, up to 40");
	CHECK(!suite_of("a.json", "[]"));
	CHECK_STR(err.message, "a.json: an object was expected");
}

static int read_turn(const char *api, const char *text, struct chat_turn *turn)
{
	auto_json json_t *reply = NULL, *messages = json_array();
	struct chat_tokens tokens = {0};

	CHECK_INT(json_parse(text, strlen(text), &reply, NULL), 0);
	return eval_wire_find(api)->read(reply, messages, turn, &tokens, &err);
}

TEST(an_answer_of_another_shape_is_an_error_and_not_a_crash)
{
	static const char *const texts[] = {"{}",
	                                    "[]",
	                                    "{\"choices\": 5}",
	                                    "{\"choices\": [null]}",
	                                    "{\"content\": {}}",
	                                    "{\"choices\": [{\"message\": \"x\"}]}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct chat_turn turn = {0};

		CHECK(read_turn("openai", texts[i], &turn) < 0);
		CHECK(read_turn("anthropic", texts[i], &turn) < 0);
		chat_turn_done(&turn);
	}
}

TEST(a_call_that_makes_no_sense_is_a_call_without_code)
{
	static const char *const arguments[] = {
		"", "{", "[]", "{\\\"code\\\": 5}",
		"{\\\"code\\\": \\\"1\\\", \\\"language\\\": \\\"c\\\"}"};

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		auto_call(chat_turn_done) struct chat_turn turn = {0};
		auto_free char *text = xasprintf("{\"choices\": [{\"message\": {\"content\": null, "
		                                 "\"tool_calls\": [{\"id\": "
		                                 "\"c\", \"function\": {\"name\": \"run_code\", "
		                                 "\"arguments\": \"%s\"}}]}}]}",
		                                 arguments[i]);

		CHECK_INT(read_turn("openai", text, &turn), 0);
		CHECK_INT(turn.n_calls, 1);
		CHECK_STR(turn.calls[0].id, "c");
		CHECK(!turn.calls[0].code);
		CHECK_STR(turn.text, "");
	}
}

TEST(a_turn_has_a_bounded_number_of_calls)
{
	auto_json json_t *arguments = json_pack("{s:s}", "code", "1");
	auto_call(chat_turn_done) struct chat_turn turn = {0};

	for (int i = 0; i < 1000; i++)
		eval_wire_add_call(&turn, "c", "run_code", arguments);
	CHECK_INT(turn.n_calls, 32);
	CHECK_STR(turn.calls[0].language, "python");
}
