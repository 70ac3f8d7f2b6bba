// SPDX-License-Identifier: Apache-2.0
/* What was used, as a table, CSV or JSON. All pages are read first: a table needs its widths. */
#include "base/units.h"
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB_MS_PER_GIB_HOUR (1024.0 * 3600000.0)

struct usage_opts {
	const char *by, *from, *to, *project;
	bool csv;
};

struct report {
	json_t *rows, *total;
	char *currency;
};

static void report_done(struct report *r)
{
	json_decref(r->rows);
	json_decref(r->total);
	free(r->currency);
}

static int fetch_page(struct command *c, const char *cursor, json_t **ret, struct err *err)
{
	const struct usage_opts *opts = c->arg;
	const struct {
		const char *name, *value;
	} query[] = {{"group_by", opts->by}, {"from", opts->from},       {"to", opts->to},
	             {"cursor", cursor},     {"project", opts->project}, {"limit", "1000"}};
	char *path = remote_path("usage");
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(query); i++)
		if (query[i].value)
			path = remote_query(path, query[i].name, query[i].value);
	r = remote_call(c->remote, "GET", path, NULL, ret, err);
	free(path);
	return r;
}

static int fetch(struct command *c, struct report *ret, struct err *err)
{
	auto_free char *cursor = NULL;

	do {
		auto_json json_t *page = NULL;
		int r = fetch_page(c, cursor, &page, err);

		if (r < 0)
			return r;
		remote_note_incomplete(c->remote, page);
		(void)json_array_extend(ret->rows, json_object_get(page, "rows"));
		free(ret->currency);
		ret->currency = xstrdup(command_text(page, "currency"));
		json_decref(ret->total); /* of the last page; of all where there is but one */
		ret->total = json_incref(json_object_get(page, "total"));
		free(cursor);
		cursor = json_is_string(json_object_get(page, "next_cursor"))
		                 ? xstrdup(command_text(page, "next_cursor"))
		                 : NULL;
	} while (cursor);
	return 0;
}

static void print_csv_value(const json_t *value)
{
	auto_free char *text = json_is_string(value) ? text_escaped(json_string_value(value))
	                                             : json_dumps(value, JSON_ENCODE_ANY);

	printf("%s,", text ? text : "");
}

/* Project names stay out: a spreadsheet could take one for a formula. */
static bool is_csv_column(const char *name)
{
	return strcmp(name, "project") != 0;
}

static void print_csv(const struct report *report)
{
	auto_free char *currency = text_escaped(report->currency);
	const char *name;
	json_t *row, *value;
	size_t i;

	json_array_foreach(report->rows, i, row)
	{
		if (i == 0) {
			json_object_foreach (row, name, value)
				if (is_csv_column(name))
					printf("%s,", name);
			printf("currency\n");
		}
		json_object_foreach (row, name, value)
			if (is_csv_column(name))
				print_csv_value(value);
		printf("%s\n", currency);
	}
}

static void add_number(struct table *t, double value, int decimals, const char *unit)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%.*f%s", decimals, value, unit);
	table_add(t, text);
}

static void add_count(struct table *t, uint64_t count)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, count);
	table_add(t, text);
}

static void add_figures(struct table *t, const json_t *row, const char *currency)
{
	auto_free char *cost = xasprintf("%s %s", command_text(row, "cost"), currency);
	char text[16];

	text_age(command_number(row, "running_ms") * 1000, text);
	table_add(t, text);
	add_number(t, (double)command_number(row, "cpu_ns") / 1e9, 3, " s");
	add_number(t, (double)command_number(row, "memory_mib_ms") / MIB_MS_PER_GIB_HOUR, 4, "");
	add_number(t, (double)command_number(row, "disk_mib_ms") / MIB_MS_PER_GIB_HOUR, 4, "");
	text_bytes(command_number(row, "network_in_bytes") +
	                   command_number(row, "network_out_bytes"),
	           text);
	table_add(t, text);
	add_count(t, command_number(row, "creates"));
	add_count(t, command_number(row, "execs") + command_number(row, "calls"));
	table_add(t, cost);
}

static const char *name_of(const json_t *row)
{
	static const char *const names[] = {"day", "sandbox_id", "project", "project_id"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (*command_text(row, names[i]))
			return command_text(row, names[i]);
	return "";
}

static void print_table(const struct report *report, const char *by)
{
	const char *const heads[] = {by,        "RUNNING", "CPU",   "GIB-H", "DISK GIB-H",
	                             "NETWORK", "CREATED", "CALLS", "COST"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	const json_t *row;
	size_t i;

	json_array_foreach(report->rows, i, row)
	{
		table_add(&t, name_of(row));
		add_figures(&t, row, report->currency);
	}
	if (json_array_size(report->rows) > 1 && strcmp(by, "SANDBOX") != 0) {
		table_add(&t, "all");
		add_figures(&t, report->total, report->currency);
	}
	table_print(&t);
	table_done(&t);
}

static int usage(struct command *c, struct err *err)
{
	const struct usage_opts *opts = c->arg;
	auto_call(report_done) struct report report = {.rows = json_array()};
	int r = fetch(c, &report, err);

	if (r < 0)
		return r;
	remote_tell_incomplete(c->remote);
	if (c->common.json)
		command_print_json(report.rows);
	else if (opts->csv)
		print_csv(&report);
	else
		print_table(&report, strcmp(opts->by, "day") == 0       ? "DAY"
		                     : strcmp(opts->by, "sandbox") == 0 ? "SANDBOX"
		                                                        : "PROJECT");
	return 0;
}

int cmd_usage(int argc, char **argv)
{
	struct usage_opts opts = {.by = "project"};
	const struct opt rows[] = {
		{0, "by", OPT_TEXT, &opts.by, "WHAT", "project (default), sandbox or day"},
		{0, "from", OPT_TEXT, &opts.from, "DAY",
	         "first day, such as 2026-11-01 (default: the first of the month)"},
		{0, "to", OPT_TEXT, &opts.to, "DAY", "last day, included (default: today)"},
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "of another project; only for admins of the project default"},
		{0, "csv", OPT_FLAG, &opts.csv, NULL, "print CSV, for a spreadsheet"},
	};
	const struct manual manual = {
		.name = "usage",
		.synopsis = "[OPTIONS]",
		.about = "Shows what was used, and what it cost at the daemon's prices. CPU is "
			 "time on a CPU, so waiting costs\n"
			 "nothing. GIB-H is the memory limit times the time that the sandbox ran, "
			 "and DISK GIB-H is the same for\n"
			 "its files. Days are those of UTC.",
		.examples = "  cloche usage\n"
			    "  cloche usage --by day --from 2026-11-01 --to 2026-11-30\n"
			    "  cloche usage --by sandbox --csv > november.csv",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, usage, &opts);
}
