// SPDX-License-Identifier: Apache-2.0
#include "cli/eval/eval_report.h"

#include "base/parse.h"
#include "base/text/decimal.h"
#include "cli/term/colour.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <string.h>

#define NAME_WIDTH 32
#define KEPT_TEXT  (16 * 1024) /* of an output, in JSON */

uint64_t eval_row_passed(const struct eval_row *row)
{
	uint64_t passed = 0;

	for (uint64_t i = 0; i < row->c->settings.repeat; i++)
		passed += row->results[i].verdict == EVAL_PASSED;
	return passed;
}

/* A hair's breadth for thresholds such as 0.9 of ten, which binary fractions do not hit. */
bool eval_row_is_passed(const struct eval_row *row)
{
	const struct eval_settings *s = &row->c->settings;

	return (double)eval_row_passed(row) + 1e-9 >= s->threshold * (double)s->repeat;
}

bool eval_row_has_error(const struct eval_row *row)
{
	for (uint64_t i = 0; i < row->c->settings.repeat; i++)
		if (row->results[i].verdict == EVAL_ERROR)
			return true;
	return false;
}

struct sums {
	uint64_t time_ms, cost_nano, input_tokens, output_tokens;
};

static struct sums sums_of(const struct eval_row *row)
{
	struct sums sums = {0};

	for (uint64_t i = 0; i < row->c->settings.repeat; i++) {
		const struct eval_result *r = &row->results[i];

		sums.time_ms += r->time_ms;
		sums.cost_nano = sum_u64(sums.cost_nano, r->cost_nano);
		sums.input_tokens += r->input_tokens;
		sums.output_tokens += r->output_tokens;
	}
	return sums;
}

static void print_run(const struct eval_row *row, uint64_t i)
{
	const struct eval_result *r = &row->results[i];
	json_t *reason;
	size_t n;

	json_array_foreach(r->reasons, n, reason)
	{
		auto_free char *text = text_escaped(json_string_value(reason));

		if (row->c->settings.repeat > 1)
			printf("    run %" PRIu64 ": %s\n", i + 1, text);
		else
			printf("    %s\n", text);
	}
	if (r->sandbox)
		printf("    its sandbox is kept for an hour: cloche shell %s\n", r->sandbox);
}

void eval_report_row(const struct eval_row *row)
{
	const struct eval_settings *s = &row->c->settings;
	bool is_passed = eval_row_is_passed(row);
	struct sums sums = sums_of(row);
	char cost[DECIMAL_SIZE];

	decimal_format(sums.cost_nano, cost);
	printf("%s%-4s%s %-*s", colour(stdout, is_passed ? COLOUR_GOOD : COLOUR_BAD),
	       is_passed ? "pass" : "FAIL", colour(stdout, COLOUR_NONE), NAME_WIDTH, row->c->name);
	if (s->repeat > 1)
		printf("  %" PRIu64 "/%" PRIu64 " (%.0f %% needed)", eval_row_passed(row),
		       s->repeat, s->threshold * 100);
	printf("  %.1f s  %s%s%s\n", (double)sums.time_ms / (double)s->repeat / 1000, cost,
	       *row->results[0].currency ? " " : "", row->results[0].currency);
	for (uint64_t i = 0; i < s->repeat; i++)
		print_run(row, i);
	(void)fflush(stdout);
}

void eval_report_sum(const struct eval_row *rows, size_t n, uint64_t time_ms)
{
	uint64_t cases = 0, runs = 0, all_runs = 0;

	for (size_t i = 0; i < n; i++) {
		cases += eval_row_is_passed(&rows[i]);
		runs += eval_row_passed(&rows[i]);
		all_runs += rows[i].c->settings.repeat;
	}
	printf("\n%" PRIu64 " of %zu cases passed, %" PRIu64 " of %" PRIu64 " runs, in %.1f s\n",
	       cases, n, runs, all_runs, (double)time_ms / 1000);
}

static const char *verdict_name(enum eval_verdict verdict)
{
	static const char *const names[] = {
		[EVAL_NOT_RUN] = "not run",
		[EVAL_PASSED] = "passed",
		[EVAL_FAILED] = "failed",
		[EVAL_ERROR] = "error",
	};

	return names[verdict];
}

static json_t *cut_text(const char *text)
{
	bool is_cut;

	return json_stringn(text, utf8_valid_prefix(text, strnlen(text, KEPT_TEXT), &is_cut));
}

static json_t *money(uint64_t nano)
{
	char text[DECIMAL_SIZE];

	decimal_format(nano, text);
	return json_string(text);
}

static json_t *run_to_json(const struct eval_result *r)
{
	return json_pack("{s:s, s:O, s:o, s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:s?}", "verdict",
	                 verdict_name(r->verdict), "reasons", r->reasons, "exit_code",
	                 r->has_exit_code ? json_integer(r->exit_code) : json_null(), "output",
	                 cut_text(r->output), "stdout", cut_text(r->out), "stderr",
	                 cut_text(r->err), "time_ms", (json_int_t)r->time_ms, "cost",
	                 money(r->cost_nano), "calls", (json_int_t)r->calls, "input_tokens",
	                 (json_int_t)r->input_tokens, "output_tokens", (json_int_t)r->output_tokens,
	                 "kept_sandbox", r->sandbox);
}

static json_t *row_to_json(const struct eval_row *row)
{
	const struct eval_settings *s = &row->c->settings;
	json_t *runs = json_array();

	for (uint64_t i = 0; i < s->repeat; i++)
		(void)json_array_append_new(runs, run_to_json(&row->results[i]));
	return json_pack("{s:s, s:s, s:b, s:f, s:f, s:o}", "file", row->suite->path, "case",
	                 row->c->name, "passed", eval_row_is_passed(row), "pass_rate",
	                 (double)eval_row_passed(row) / (double)s->repeat, "threshold",
	                 s->threshold, "runs", runs);
}

json_t *eval_report_json(const struct eval_row *rows, size_t n, uint64_t time_ms)
{
	json_t *cases = json_array();
	size_t passed = 0;

	for (size_t i = 0; i < n; i++) {
		passed += eval_row_is_passed(&rows[i]);
		(void)json_array_append_new(cases, row_to_json(&rows[i]));
	}
	return json_pack("{s:b, s:I, s:I, s:I, s:s, s:o}", "passed", passed == n, "cases_passed",
	                 (json_int_t)passed, "cases_failed", (json_int_t)(n - passed), "time_ms",
	                 (json_int_t)time_ms, "currency", n ? rows[0].results[0].currency : "",
	                 "cases", cases);
}
