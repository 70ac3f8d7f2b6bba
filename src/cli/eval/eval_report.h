// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What came of all runs: for people line by line, as JSON, and as the XML of JUnit that CI servers
 * show. */
#include "cli/eval/eval_run.h"

#include <stdio.h>

struct eval_row { /* one case with its runs */
	const struct eval_suite *suite;
	const struct eval_case *c;
	struct eval_result *results; /* c->settings.repeat of them */
};

uint64_t eval_row_passed(const struct eval_row *row); /* runs */
bool eval_row_is_passed(const struct eval_row *row);  /* by the case's threshold */
bool eval_row_has_error(const struct eval_row *row);

void eval_report_row(const struct eval_row *row);
void eval_report_sum(const struct eval_row *rows, size_t n, uint64_t time_ms);
json_t *eval_report_json(const struct eval_row *rows, size_t n, uint64_t time_ms);
must_check int eval_report_junit(const char *path, const struct eval_row *rows, size_t n,
                                 struct err *err);
