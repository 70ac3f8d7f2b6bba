// SPDX-License-Identifier: Apache-2.0
/* The daemon's settings, each with where its value comes from: first those that are not the
 * default, then the others. */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

#define VALUE_MAX 60 /* characters of a value in the table */

struct settings_opts {
	bool is_changed_only;
};

static bool has_word(const json_t *setting, const char *word)
{
	static const char *const fields[] = {"name", "option", "help"};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (strcasestr(command_text(setting, fields[i]), word))
			return true;
	return false;
}

static bool is_wanted(const struct command *c, const json_t *setting)
{
	for (size_t i = 0; i < c->n_words; i++)
		if (!has_word(setting, c->words[i]))
			return false;
	return true;
}

/* As a file has it; "-" where it can only leave it out. */
static char *value_text(const json_t *value)
{
	if (json_is_null(value))
		return xstrdup("-");
	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
}

static char *origin_text(const json_t *origin, const char *option)
{
	const char *from = command_text(origin, "from"), *file = command_text(origin, "file");
	uint64_t line = command_number(origin, "line");

	if (strcmp(from, "file") == 0)
		return line > 0 ? xasprintf("%s:%u", file, (unsigned)line) : xstrdup(file);
	if (strcmp(from, "environment") == 0)
		return xasprintf("$%s", command_text(origin, "variable"));
	return xstrdup(strcmp(from, "command_line") == 0 ? option : from);
}

static void add_value(struct table *t, const json_t *value)
{
	auto_free char *text = value_text(value);

	if (strlen(text) > VALUE_MAX)
		(void)snprintf(text + VALUE_MAX - 3, 4, "...");
	table_add(t, text);
}

static void add_row(struct table *t, const json_t *setting)
{
	auto_free char *origin =
		origin_text(json_object_get(setting, "origin"), command_text(setting, "option"));

	table_add(t, command_text(setting, "name"));
	add_value(t, json_object_get(setting, "value"));
	add_value(t, json_object_get(setting, "default"));
	table_add(t, origin);
	table_add(t, command_text(setting, "needs"));
}

/* How many there were. */
static size_t add_rows(const struct command *c, struct table *t, const json_t *settings,
                       bool is_changed)
{
	const json_t *setting;
	size_t i, n = 0;

	json_array_foreach(settings, i, setting)
	{
		if (json_is_true(json_object_get(setting, "changed")) != is_changed ||
		    !is_wanted(c, setting))
			continue;
		add_row(t, setting);
		n++;
	}
	return n;
}

static int print_table(const struct command *c, const json_t *settings, struct err *err)
{
	static const char *const heads[] = {"SETTING", "VALUE", "DEFAULT", "FROM",
	                                    "A CHANGE NEEDS"};
	const struct settings_opts *opts = c->arg;
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	size_t n = add_rows(c, &t, settings, /* is_changed= */ true);
	int r = 0;

	if (!opts->is_changed_only)
		n += add_rows(c, &t, settings, /* is_changed= */ false);
	if (n > 0) {
		table_print(&t);
	} else if (opts->is_changed_only) {
		printf("No setting%s differs from its default.\n",
		       c->n_words > 0 ? " with these words" : "");
	} else {
		(void)err_set(err, ERR_NOT_FOUND, 0,
		              "no setting has all of these words in its name or meaning");
		r = err_hint(err, "'cloche settings' lists all");
	}
	table_done(&t);
	return r;
}

static void print_pending(const json_t *setting)
{
	const json_t *pending = json_object_get(setting, "pending");
	auto_free char *value = value_text(json_object_get(pending, "value"));
	auto_free char *shown = text_escaped(value);
	auto_free char *origin = origin_text(json_object_get(pending, "origin"), "");
	auto_free char *from = text_escaped(origin);

	printf("%s: %s (%s) from the next start of the daemon on\n", command_text(setting, "name"),
	       shown, from);
}

static void print_notes(const struct command *c, const json_t *reply)
{
	auto_free char *file = text_escaped(command_text(json_object_get(reply, "file"), "path"));
	const json_t *setting;
	size_t i;

	json_array_foreach(json_object_get(reply, "settings"), i, setting)
	{
		if (!is_wanted(c, setting))
			continue;
		if (json_is_object(json_object_get(setting, "pending")))
			print_pending(setting);
		if (command_number(setting, "overridden_line") > 0)
			printf("%s: line %u of %s is overridden by the command line\n",
			       command_text(setting, "name"),
			       (unsigned)command_number(setting, "overridden_line"), file);
	}
}

static int settings(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("settings");
	auto_json json_t *reply = NULL;
	int r = command_ask(c, "GET", path, NULL, &reply, err);

	if (r != 0)
		return MIN(r, 0);
	r = print_table(c, json_object_get(reply, "settings"), err);
	if (r == 0)
		print_notes(c, reply);
	return r;
}

int cmd_settings(int argc, char **argv)
{
	struct settings_opts opts = {0};
	const struct opt rows[] = {
		{0, "changed", OPT_FLAG, &opts.is_changed_only, NULL,
	         "show only those that are not the default"},
	};
	const struct manual manual = {
		.name = "settings",
		.synopsis = "[OPTIONS] [WORD…]",
		.about =
			"Shows the settings of the running daemon: value, default, where the "
			"value comes from (a line of the\n"
			"settings file, an option of `cloche serve`, a variable of its "
			"environment), and what a change needs:\n"
			"a reload (systemctl reload cloche) or a restart. Those that are not the "
			"default come first. WORDs\n"
			"select settings that have all of them in their name or meaning. Values in "
			"the file that wait for a\n"
			"restart are listed at the end. This needs an admin key of the project "
			"default.",
		.examples = "  cloche settings --changed\n"
			    "  cloche settings pool\n"
			    "  cloche settings --json | jq '.settings[] | select(.pending)'",
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, settings, &opts);
}
