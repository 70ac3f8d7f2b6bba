// SPDX-License-Identifier: Apache-2.0
/*
 * JUnit's XML, as CI servers read it: a suite for each file, a case for each case, with its
 * failures in words. Bytes that XML cannot hold at all are written as U+FFFD.
 */
#include "cli/eval/eval_report.h"

#include "base/parse.h"

#include <inttypes.h>
#include <string.h>

static void put_byte(FILE *out, unsigned char c)
{
	switch (c) {
	case '&':
		(void)fputs("&amp;", out);
		break;
	case '<':
		(void)fputs("&lt;", out);
		break;
	case '>':
		(void)fputs("&gt;", out);
		break;
	case '"':
		(void)fputs("&quot;", out);
		break;
	case '\n':
		(void)fputs("&#10;", out);
		break;
	case '\t':
		(void)fputc(c, out);
		break;
	default:
		if (c < 0x20)
			(void)fputs("\xef\xbf\xbd", out);
		else
			(void)fputc(c, out);
	}
}

/* U+FFFE and U+FFFF are no characters of XML. */
static bool is_forbidden(const char *s)
{
	return memcmp(s, "\xef\xbf", 2) == 0 &&
	       ((unsigned char)s[2] == 0xbe || (unsigned char)s[2] == 0xbf);
}

static void put_text(FILE *out, const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s == 0xef && is_forbidden(s)) {
			(void)fputs("\xef\xbf\xbd", out);
			s += 2;
		} else {
			put_byte(out, (unsigned char)*s);
		}
	}
}

static void put_reasons(FILE *out, const struct eval_row *row)
{
	for (uint64_t i = 0; i < row->c->settings.repeat; i++) {
		const struct eval_result *r = &row->results[i];
		json_t *reason;
		size_t n;

		json_array_foreach(r->reasons, n, reason)
		{
			(void)fprintf(out, "run %" PRIu64 ": ", i + 1);
			put_text(out, json_string_value(reason));
			(void)fputc('\n', out);
		}
		if (r->sandbox)
			(void)fprintf(out, "run %" PRIu64 ": cloche shell %s\n", i + 1, r->sandbox);
	}
}

static void put_case(FILE *out, const struct eval_row *row)
{
	const char *element = eval_row_has_error(row) ? "error" : "failure";
	uint64_t passed = eval_row_passed(row), repeat = row->c->settings.repeat;
	uint64_t ms = 0;

	for (uint64_t i = 0; i < repeat; i++)
		ms += row->results[i].time_ms;
	(void)fputs("  <testcase classname=\"", out);
	put_text(out, row->suite->path);
	(void)fprintf(out, "\" name=\"%s\" time=\"%.3f\">\n", row->c->name, (double)ms / 1000);
	if (!eval_row_is_passed(row)) {
		(void)fprintf(out,
		              "    <%s message=\"%" PRIu64 " of %" PRIu64
		              " runs passed, %.0f %% needed\">",
		              element, passed, repeat, row->c->settings.threshold * 100);
		put_reasons(out, row);
		(void)fprintf(out, "</%s>\n", element);
	}
	(void)fputs("    <system-out>", out);
	put_text(out, row->results[repeat - 1].output);
	(void)fputs("</system-out>\n  </testcase>\n", out);
}

/* The rows of one file stand together. */
static size_t put_suite(FILE *out, const struct eval_row *rows, size_t n)
{
	size_t end = 0, failures = 0, errors = 0;

	for (; end < n && rows[end].suite == rows[0].suite; end++) {
		bool is_error = eval_row_has_error(&rows[end]);

		if (!eval_row_is_passed(&rows[end])) {
			errors += is_error;
			failures += !is_error;
		}
	}
	(void)fputs(" <testsuite name=\"", out);
	put_text(out, rows[0].suite->path);
	(void)fprintf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", end, failures,
	              errors);
	for (size_t i = 0; i < end; i++)
		put_case(out, &rows[i]);
	(void)fputs(" </testsuite>\n", out);
	return end;
}

int eval_report_junit(const char *path, const struct eval_row *rows, size_t n, struct err *err)
{
	FILE *out = fopen(path, "we");
	int error;

	if (!out)
		return err_set(err, ERR_INTERNAL, errno, "cannot write '%s'", path);
	(void)fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
	for (size_t i = 0; i < n;)
		i += put_suite(out, rows + i, n - i);
	(void)fputs("</testsuites>\n", out);
	error = ferror(out) ? EIO : 0;
	if (fclose(out) != 0)
		error = errno;
	return error ? err_set(err, ERR_INTERNAL, error, "cannot write '%s'", path) : 0;
}
