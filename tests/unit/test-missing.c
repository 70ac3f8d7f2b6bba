// SPDX-License-Identifier: Apache-2.0
/* What a line of a program says of what its sandbox lacks, and what to do about it. */
#include "base/text/missing.h"

#include "base/auto.h"
#include "test.h"

#include <string.h>

TEST(a_missing_thing_is_told_with_its_package)
{
	static const struct {
		const char *line, *said;
	} rows[] = {
		{"ModuleNotFoundError: No module named 'httpx'", "--package httpx)"},
		{"ModuleNotFoundError: No module named 'sklearn.svm'", "--package scikit-learn)"},
		{"ModuleNotFoundError: No module named 'pandas'", "--template universal"},
		{"Error: Cannot find module 'zod'", "--package npm:zod)"},
		{"Error: Cannot find module '@a/b'", "--package npm:@a/b)"},
		{"Error: Cannot find module 'lodash/fp'", "--package npm:lodash)"},
		{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /a.mjs",
	         "--package npm:zod)"},
		{"bash: line 1: curl: command not found", "no program 'curl'"},
		{"sh: 1: jq: not found", "no program 'jq'"},
		{"curl: (6) Could not resolve host: pypi.org", "--allow HOST"},
		{"URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
	         "--allow pip"},
		{"npm error request to https://a/ failed, reason: getaddrinfo EAI_AGAIN a",
	         "cloche network allow SANDBOX HOST"},
	};
	char hint[MISSING_HINT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK(missing_hint(rows[i].line, hint));
		CHECK(strstr(hint, rows[i].said));
	}
}

TEST(what_names_no_package_has_no_hint)
{
	static const char *const lines[] = {
		"",
		"ModuleNotFoundError: No module named ''",
		"ModuleNotFoundError: No module named 'a b'",
		"ModuleNotFoundError: No module named 'x\x1b[31m'",
		"ModuleNotFoundError: No module named 'x",
		"Error: Cannot find module './mine.js'",
		"Error: Cannot find module '/srv/mine.js'",
		"the file was not found",
		": not found",
	};
	char hint[MISSING_HINT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		CHECK(!missing_hint(lines[i], hint));
}

TEST(the_last_such_line_of_an_output_counts)
{
	static const char text[] = "sh: 1: a: not found\nTraceback\nModuleNotFoundError: No module "
				   "named 'b'\n\nmore";
	char hint[MISSING_HINT_SIZE];

	CHECK(missing_hint_in(text, strlen(text), hint));
	CHECK(strstr(hint, "no module 'b'"));
	CHECK(!missing_hint_in("", 0, hint));
}
