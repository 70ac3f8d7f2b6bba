// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ps {
	bool all, quiet;
	const char *tag;
};

static int fetch(struct command *c, const char *state, json_t *sandboxes, struct err *err)
{
	const struct ps *opts = c->arg;
	auto_free char *path = remote_query(remote_path("sandboxes"), "limit", "100");
	auto_free char *tag = opts->tag ? tag_to_query(opts->tag) : NULL;

	if (state)
		path = remote_query(path, "state", state);
	if (tag)
		path = remote_query(path, "tag", tag);
	return remote_list(c->remote, path, "sandboxes", sandboxes, err);
}

static void add_age(struct table *t, uint64_t at_us)
{
	uint64_t now = clock_wall_us();
	char text[16];

	text_age(now > at_us ? now - at_us : 0, text);
	table_add(t, at_us ? text : NULL);
}

static void add_state(struct table *t, const json_t *sandbox)
{
	const char *state = command_text(sandbox, "state");
	const char *cause = command_text(json_object_get(sandbox, "ended"), "cause");
	auto_free char *text = *cause ? xasprintf("%s (%s)", state, cause) : xstrdup(state);

	table_add(t, text);
}

static void add_limits(struct table *t, const json_t *limits)
{
	auto_free char *vcpus =
		xasprintf("%g", json_number_value(json_object_get(limits, "vcpus")));
	char memory[16];

	text_bytes(command_number(limits, "memory_mib") << 20, memory);
	table_add(t, vcpus);
	table_add(t, memory);
}

static void add_expiry(struct table *t, const json_t *sandbox)
{
	uint64_t at_us = command_number(sandbox, "expires_us"), now = clock_wall_us();
	auto_free char *text = NULL;
	char left[16];

	text_age(at_us > now ? at_us - now : 0, left);
	text = xasprintf("in %s", left);
	table_add(t, at_us && json_is_null(json_object_get(sandbox, "ended")) ? text : NULL);
}

static void print_sandboxes(const json_t *sandboxes)
{
	static const char *const heads[] = {"ID",    "NAME",   "STATE", "TEMPLATE",
	                                    "VCPUS", "MEMORY", "AGE",   "ENDS"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	size_t i;
	const json_t *s;

	json_array_foreach(sandboxes, i, s)
	{
		table_add(&t, command_text(s, "id"));
		table_add(&t, command_text(s, "name"));
		add_state(&t, s);
		table_add(&t, command_text(s, "template"));
		add_limits(&t, json_object_get(s, "limits"));
		add_age(&t, command_number(s, "created_us"));
		add_expiry(&t, s);
	}
	table_print(&t);
	table_done(&t);
}

/* The command as one line: its words, or the shell's text. */
static char *command_line(const json_t *exec)
{
	struct buf line = BUF_INIT(256);
	const json_t *argv = json_object_get(exec, "argv");
	size_t i;
	const json_t *word;
	char *copy;

	if (!json_is_array(argv))
		return xstrdup(command_text(exec, "shell"));
	json_array_foreach(argv, i, word)
	{
		/* What does not fit is left away: it is one line of a table. */
		if (buf_printf(&line, "%s%s", i ? " " : "", json_string_value(word)) < 0)
			break;
	}
	copy = xstrdup(buf_str(&line));
	buf_done(&line);
	return copy;
}

static void add_result(struct table *t, const json_t *exec)
{
	const char *cause = command_text(exec, "cause");
	auto_free char *text = NULL;

	if (command_number(exec, "signal"))
		text = xasprintf("signal %" PRIu64, command_number(exec, "signal"));
	else if (json_is_integer(json_object_get(exec, "exit_code")))
		text = xasprintf("%" PRIu64, command_number(exec, "exit_code"));
	if (text && *cause && strcmp(cause, "exited") != 0) {
		char *with_cause = xasprintf("%s (%s)", text, cause);

		free(text);
		text = with_cause;
	}
	table_add(t, text);
}

static void print_execs(const json_t *execs)
{
	static const char *const heads[] = {"EXEC", "STATE", "EXIT", "USER", "AGE", "COMMAND"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	size_t i;
	const json_t *e;

	json_array_foreach(execs, i, e)
	{
		auto_free char *line = command_line(e);

		table_add(&t, command_text(e, "id"));
		table_add(&t, command_text(e, "state"));
		add_result(&t, e);
		table_add(&t, command_text(e, "user"));
		add_age(&t, command_number(e, "created_us"));
		table_add(&t, line);
	}
	table_print(&t);
	table_done(&t);
}

static void print_ids(const json_t *list)
{
	size_t i;
	const json_t *item;

	json_array_foreach(list, i, item)
	{
		auto_free char *id = text_escaped(command_text(item, "id"));

		printf("%s\n", id);
	}
}

static void show(const struct command *c, const json_t *list, void (*print)(const json_t *))
{
	const struct ps *opts = c->arg;

	if (c->common.json)
		command_print_json(list);
	else if (opts->quiet)
		print_ids(list);
	else
		print(list);
}

static int list_execs(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "execs");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	show(c, json_object_get(reply, "execs"), print_execs);
	return 0;
}

static int ps(struct command *c, struct err *err)
{
	const struct ps *opts = c->arg;
	auto_json json_t *sandboxes = json_array();
	int r;

	if (c->n_words == 1)
		return list_execs(c, err);
	r = fetch(c, NULL, sandboxes, err);
	if (r == 0 && opts->all)
		r = fetch(c, "stopped", sandboxes, err);
	if (r == 0 && opts->all)
		r = fetch(c, "failed", sandboxes, err);
	if (r < 0)
		return r;
	show(c, sandboxes, print_sandboxes);
	return 0;
}

int cmd_ps(int argc, char **argv)
{
	struct ps opts = {0};
	const struct opt rows[] = {
		{'a', "all", OPT_FLAG, &opts.all, NULL, "those that have ended too"},
		{'q', "quiet", OPT_FLAG, &opts.quiet, NULL, "print ids only"},
		{0, "tag", OPT_TEXT, &opts.tag, "K=V", "only those with this tag"},
	};
	const struct manual manual = {
		.name = "ps",
		.synopsis = "[OPTIONS]\n[OPTIONS] SANDBOX",
		.about = "Lists your sandboxes, newest first; with a sandbox, the execs in it.",
		.examples = "  cloche ps\n"
			    "  cloche ps -a --tag team=blue\n"
			    "  cloche ps build\n"
			    "  cloche ps --json",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, ps, &opts);
}
