// SPDX-License-Identifier: Apache-2.0
/* What was used in the past, a line for each figure: what it is now, the most, and its course. */
#include "base/units.h"
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CELLS 60

struct history_opts {
	const char *range, *project;
	bool host;
};

static char *path_of(const struct command *c)
{
	const struct history_opts *opts = c->arg;
	const char *id = c->n_words ? c->words[0] : opts->project;
	char *path = remote_query(remote_path("history"), "scope",
	                          opts->host   ? "host"
	                          : c->n_words ? "sandbox"
	                                       : "project");

	if (id)
		path = remote_query(path, "id", id);
	return opts->range ? remote_query(path, "range", opts->range) : path;
}

/* "memory_bytes" is "memory". */
static char *label_of(const char *name)
{
	static const char *const units[] = {"_bytes_per_second", "_bytes", "_milli"};
	char *label = xstrdup(name);
	char *end = NULL;

	for (size_t i = 0; !end && i < ARRAY_SIZE(units); i++)
		end = strstr(label, units[i]);
	if (end)
		*end = '\0';
	for (char *p = label; *p; p++)
		*p = *p == '_' ? ' ' : *p;
	return label;
}

static char *value_text(const char *unit, uint64_t value)
{
	char text[16];

	if (strncmp(unit, "milli", 5) == 0)
		return xasprintf("%.2f", (double)value / 1000);
	if (strncmp(unit, "bytes", 5) != 0)
		return xasprintf("%" PRIu64, value);
	text_bytes(value, text);
	return xasprintf("%s%s", text, unit + 5);
}

/* The highest value of a part of the readings; false: there is none. */
static bool highest(const json_t *values, size_t from, size_t to, uint64_t *ret)
{
	bool is_known = false;

	*ret = 0;
	for (size_t i = from; i < to; i++) {
		const json_t *v = json_array_get(values, i);

		if (!json_is_integer(v))
			continue;
		is_known = true;
		*ret = MAX(*ret, (uint64_t)json_integer_value(v));
	}
	return is_known;
}

/* A bar for each part of the time; a gap is empty. */
static char *course_of(const json_t *values, uint64_t most)
{
	static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	struct buf line = BUF_INIT((size_t)CELLS * 4);
	size_t n = json_array_size(values);
	char *copy;

	for (size_t i = 0; i < CELLS; i++) {
		uint64_t v;
		bool is_known = highest(values, n * i / CELLS, n * (i + 1) / CELLS, &v);
		size_t height = most ? (size_t)(v * (ARRAY_SIZE(bars) - 1) / most) : 0;

		(void)!buf_append_str(&line, is_known ? bars[height] : " "); /* it has room */
	}
	copy = xstrdup(buf_str(&line));
	buf_done(&line);
	return copy;
}

static bool add_row(struct table *t, const json_t *series)
{
	const json_t *values = json_object_get(series, "values");
	const json_t *last = json_array_get(values, json_array_size(values) - 1);
	const char *unit = command_text(series, "unit");
	uint64_t most;
	bool is_known = highest(values, 0, json_array_size(values), &most);
	auto_free char *label = label_of(command_text(series, "name"));
	auto_free char *now =
		json_is_integer(last) ? value_text(unit, (uint64_t)json_integer_value(last)) : NULL;
	auto_free char *peak = is_known ? value_text(unit, most) : NULL;
	auto_free char *course = course_of(values, most);

	table_add(t, label);
	table_add(t, now);
	table_add(t, peak);
	table_add(t, course);
	return is_known;
}

static int print_history(struct command *c, struct err *err)
{
	static const char *const heads[] = {"FIGURE", "NOW", "MOST", "COURSE"};
	const struct history_opts *opts = c->arg;
	auto_free char *path = NULL;
	auto_json json_t *reply = NULL;
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	const json_t *series;
	bool is_known = false;
	size_t i;
	int r;

	if (opts->host + (opts->project != NULL) + (c->n_words > 0) > 1)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "give one of SANDBOX, --project and --host");
	path = path_of(c);
	r = command_ask(c, "GET", path, NULL, &reply, err);
	if (r != 0)
		return MIN(r, 0);
	json_array_foreach(json_object_get(reply, "series"), i, series) is_known |=
		add_row(&t, series);
	if (is_known)
		table_print(&t);
	else
		(void)fprintf(stderr, "nothing has been kept of that time\n");
	table_done(&t);
	return 0;
}

int cmd_history(int argc, char **argv)
{
	struct history_opts opts = {0};
	const struct opt rows[] = {
		{'r', "range", OPT_TEXT, &opts.range, "RANGE", "1h, 24h, 7d or 30d (default 1h)"},
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "of another project, for admins of `default`"},
		{0, "host", OPT_FLAG, &opts.host, NULL, "of the machine, for admins of `default`"},
	};
	const struct manual manual = {
		.name = "history",
		.synopsis = "[OPTIONS]\n[OPTIONS] SANDBOX",
		.about = "Shows what your project used in the last hour, day, week or month. With "
			 "SANDBOX, what that one used, also if it is gone. In a gap the daemon or "
			 "the sandbox did not run.",
		.examples = "  cloche history\n"
			    "  cloche history -r 24h build\n"
			    "  cloche history --host -r 7d\n"
			    "  cloche ps --at 2h",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, print_history, &opts);
}
