// SPDX-License-Identifier: Apache-2.0
/* Where a cell ends, as a prompt guesses it. */
#include "base/auto.h"
#include "cli/prompt/cell_complete.h"
#include "test.h"

#define CHECK_ALL(language, texts, wanted)                                                         \
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)                                             \
		if (cell_is_complete(language, (texts)[i]) != (wanted))                            \
	CHECK_STR((texts)[i], (wanted) ? "(is whole)" : "(goes on)")

TEST(a_line_of_python_is_whole)
{
	static const char *const whole[] = {
		"",
		"1 + 1",
		"print('(')",
		"print(\"it's [\")",
		"x = {'a': [1, 2]} # (",
		"f'{x}'",
		"'''one\ntwo'''",
		"\"\"\"a \\\"\"\" b\"\"\"",
		"x = 'not ended",
		")",
		"(1 +\n2)",
		"1 + \\\n2",
		"lambda: 0",
		"d = {1: 2}",
		"ifx = 1",
	};

	CHECK_ALL("python", whole, true);
}

TEST(python_goes_on_in_brackets_triple_quotes_and_blocks)
{
	static const char *const open[] = {
		"f(",
		"x = [1,\n2,",
		"'''one",
		"x = \"\"\"one\n'''\n",
		"1 + \\",
		"if x:",
		"if x: # why",
		"for i in x: print(i)",
		"def f():\n    return 1",
		"@decorate",
		"x = 1\nwhile x:\n    x -= 1",
		"match x:",
	};

	CHECK_ALL("python", open, false);
}

TEST(an_empty_line_ends_a_block_of_python)
{
	static const char *const whole[] = {
		"if x:\n    pass\n",
		"for i in x: print(i)\n",
		"def f():\n    return 1\n   ",
		"class A:\n    def f(self):\n        pass\n",
	};

	CHECK_ALL("python", whole, true);
	CHECK(!cell_is_complete("python", "def f():\n    x = '''\n"));
}

TEST(javascript_is_whole_when_all_that_was_opened_is_closed)
{
	static const char *const whole[] = {
		"1 + 1",
		"f({a: [1, 2]})",
		"`${ {a: `${1}`}.a }`",
		"/[/(]/.test('(')",
		"a / b / (c)",
		"x = 1 // (",
		"/* ( */ 1",
		"'}'",
		"x++",
		"function f() {\n}",
		"}",
	};
	static const char *const open[] = {
		"f(", "{", "`one", "`${", "`${a}", "/* one", "const x =", "[1,", "a &&", "f(`)`",
	};

	CHECK_ALL("javascript", whole, true);
	CHECK_ALL("typescript", open, false);
}

TEST(bash_is_whole_when_quotes_words_and_documents_are_ended)
{
	static const char *const whole[] = {
		"echo if",
		"if true; then echo a; fi",
		"for i in 1 2; do echo $i; done",
		"while read x; do\necho $x\ndone < f",
		"case $x in\na) echo a ;;\n*) echo b ;;\nesac",
		"f() { echo; }",
		"(cd /tmp; ls)",
		"echo $(( 1 + 2 )) $(ls)",
		"cat <<EOF\nif (\nEOF",
		"cat <<-'EOF'\n'\n\tEOF\n",
		"cat <<< word",
		"echo \"it's\" 'a \"' $'don\\'t'",
		"echo a # 'b",
		"echo a#'b'",
		"sleep 1 &",
		"echo \\(",
	};
	static const char *const open[] = {
		"if true; then", "for i in 1",     "f() {",          "(cd /tmp",
		"echo 'a",       "echo \"a",       "echo `ls",       "echo a |",
		"true &&",       "false ||",       "cat <<EOF",      "cat <<EOF\nEOF x",
		"echo \\",       "while true; do", "case $x in\na)", "echo $(ls",
	};

	CHECK_ALL("bash", whole, true);
	CHECK_ALL("bash", open, false);
}

TEST(r_is_whole_when_brackets_are_closed_and_no_operator_waits)
{
	static const char *const whole[] = {
		"1 + 1", "x <- c(1, 2) # (", "f <- function(n) {\n n\n}", "'it\\'s (' ", "`a b`",
		"",
	};
	static const char *const open[] = {
		"f(", "x <-", "1 +", "if (a) {", "'one\ntwo", "x %>%", "a |>", "c(1,",
	};

	CHECK_ALL("r", whole, true);
	CHECK_ALL("r", open, false);
}

TEST(two_empty_lines_end_what_was_guessed_wrongly)
{
	CHECK(!cell_is_complete("javascript", "f(\n"));
	CHECK(cell_is_complete("javascript", "f(\n\n"));
	CHECK(cell_is_complete("bash", "echo {\n\n"));
	CHECK(!cell_is_complete("python", "f(\n\n"));
}
