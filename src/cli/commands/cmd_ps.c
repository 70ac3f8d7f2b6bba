// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "cli/frame/resource.h"
#include "cli/session/spec.h"
#include "cli/term/moment.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ps {
	bool all, quiet;
	const char *tag, *group, *at;
};

static bool has(const json_t *sandboxes, const json_t *sandbox)
{
	for (size_t i = 0; i < json_array_size(sandboxes); i++)
		if (strcmp(command_text(json_array_get(sandboxes, i), "id"),
		           command_text(sandbox, "id")) == 0)
			return true;
	return false;
}

/* Persistent ones that are stopped are among those of any state too. */
static int fetch(struct command *c, const char *state, json_t *sandboxes, struct err *err)
{
	auto_json json_t *found = json_array();
	const struct ps *opts = c->arg;
	json_t *sandbox;
	size_t i;
	int r;
	auto_free char *path = remote_query(remote_path("sandboxes"), "limit", "100");
	auto_free char *tag = opts->tag ? tag_to_query(opts->tag) : NULL;

	if (state)
		path = remote_query(path, "state", state);
	if (tag)
		path = remote_query(path, "tag", tag);
	if (opts->group)
		path = remote_query(path, "group", opts->group);
	r = remote_list(c->remote, path, "sandboxes", found, err);
	json_array_foreach(found, i, sandbox)
	{
		if (!state || !has(sandboxes, sandbox))
			(void)json_array_append(sandboxes, sandbox);
	}
	return r;
}

static char *cell_state(const json_t *sandbox, const char *field)
{
	const char *state = command_text(sandbox, field);
	const char *cause = command_text(json_object_get(sandbox, "ended"), "cause");

	return *cause ? xasprintf("%s (%s)", state, cause) : xstrdup(state);
}

static char *cell_vcpus(const json_t *sandbox, const char *field)
{
	return xasprintf("%g", json_number_value(
				       json_object_get(json_object_get(sandbox, "limits"), field)));
}

static char *cell_memory(const json_t *sandbox, const char *field)
{
	return cell_mib(json_object_get(sandbox, "limits"), field);
}

static char *cell_expiry(const json_t *sandbox, const char *field)
{
	uint64_t at_us = command_number(sandbox, field), now = clock_wall_us();
	char left[16];

	if (!at_us || !json_is_null(json_object_get(sandbox, "ended")))
		return NULL;
	text_age(at_us > now ? at_us - now : 0, left);
	return xasprintf("in %s", left);
}

static const struct column sandbox_columns[] = {
	{"NODE", "node"}, /* in a cluster */
	{"ID", "id"},
	{"NAME", "name"},
	{"STATE", "state", cell_state},
	{"TEMPLATE", "template"},
	{"VCPUS", "vcpus", cell_vcpus},
	{"MEMORY", "memory_mib", cell_memory},
	{"AGE", "created_us", cell_age},
	{"ENDS", "expires_us", cell_expiry},
};
static const struct resource sandbox_resource = {.plural = "sandboxes",
                                                 .columns = sandbox_columns + 1,
                                                 .n_columns = ARRAY_SIZE(sandbox_columns) - 1};
static const struct resource sandboxes_of_nodes = {.plural = "sandboxes",
                                                   .columns = sandbox_columns,
                                                   .n_columns = ARRAY_SIZE(sandbox_columns)};

static char *cell_moment(const json_t *run, const char *field)
{
	uint64_t us = command_number(run, field);
	char text[32];

	if (!us)
		return NULL;
	moment_format(us, text);
	return xstrdup(text);
}

static char *cell_cpus(const json_t *run, const char *field)
{
	return json_is_integer(json_object_get(run, field))
	               ? xasprintf("%.2f", (double)command_number(run, field) / 1000)
	               : NULL;
}

static char *cell_known_bytes(const json_t *run, const char *field)
{
	return json_is_integer(json_object_get(run, field)) ? cell_bytes(run, field) : NULL;
}

static const struct column run_columns[] = {
	{"ID", "id"},
	{"NAME", "name"},
	{"TEMPLATE", "template"},
	{"BEGAN", "began_us", cell_moment},
	{"ENDED", "ended_us", cell_moment},
	{"CPUS", "cpu_milli", cell_cpus},
	{"MEMORY", "memory_bytes", cell_known_bytes},
};
static const struct resource run_resource = {
	.plural = "sandboxes", .columns = run_columns, .n_columns = ARRAY_SIZE(run_columns)};

/* The command as one line: its words, or the shell's text. */
static char *cell_command(const json_t *exec, const char *field)
{
	struct buf line = BUF_INIT(256);
	const json_t *argv = json_object_get(exec, field);
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

static char *cell_result(const json_t *exec, const char *field)
{
	const char *cause = command_text(exec, "cause");
	const char *why = strcmp(cause, "exited") != 0 ? cause : "";
	auto_free char *result = NULL;

	if (command_number(exec, "signal"))
		result = xasprintf("signal %" PRIu64, command_number(exec, "signal"));
	else if (json_is_integer(json_object_get(exec, field)))
		result = xasprintf("%" PRIu64, command_number(exec, field));
	return result && *why ? xasprintf("%s (%s)", result, why) : take_ptr(result);
}

static const struct column exec_columns[] = {
	{"EXEC", "id"},
	{"STATE", "state"},
	{"EXIT", "exit_code", cell_result},
	{"USER", "user"},
	{"AGE", "created_us", cell_age},
	{"COMMAND", "argv", cell_command},
};
static const struct resource exec_resource = {
	.plural = "execs", .columns = exec_columns, .n_columns = ARRAY_SIZE(exec_columns)};

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

static void show(const struct command *c, const struct resource *resource, const json_t *list)
{
	const struct ps *opts = c->arg;

	if (c->common.json)
		command_print_json(list);
	else if (opts->quiet)
		print_ids(list);
	else
		resource_print(resource, list);
}

static int list_execs(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "execs");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	show(c, &exec_resource, json_object_get(reply, "execs"));
	return 0;
}

static int list_ran(struct command *c, struct err *err)
{
	const struct ps *opts = c->arg;
	auto_json json_t *ran = json_array();
	auto_free char *path = NULL;
	char at[24];
	uint64_t at_us;
	int r;

	if (opts->all || opts->tag || opts->group || c->n_words)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "--at lists what ran at a moment: leave out --all, --tag, --group "
		               "and SANDBOX");
	if (moment_parse(opts->at, clock_wall_us(), &at_us) < 0)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "--at must be a moment such as 2026-11-17T14:00, 14:00, or 2h for "
		               "two hours ago");
	(void)snprintf(at, sizeof(at), "%" PRIu64, at_us);
	path = remote_query(remote_path("history", "running"), "at_us", at);
	path = remote_query(path, "limit", "1000");
	r = remote_list(c->remote, path, "sandboxes", ran, err);
	if (r == 0)
		show(c, &run_resource, ran);
	return r;
}

static int ps(struct command *c, struct err *err)
{
	const struct ps *opts = c->arg;
	auto_json json_t *sandboxes = json_array();
	int r;

	if (opts->at)
		return list_ran(c, err);
	if (c->n_words == 1)
		return list_execs(c, err);
	r = fetch(c, NULL, sandboxes, err);
	if (r == 0 && opts->all)
		r = fetch(c, "stopped", sandboxes, err);
	if (r == 0 && opts->all)
		r = fetch(c, "failed", sandboxes, err);
	if (r < 0)
		return r;
	show(c,
	     json_object_get(json_array_get(sandboxes, 0), "node") ? &sandboxes_of_nodes
	                                                           : &sandbox_resource,
	     sandboxes);
	remote_tell_incomplete(c->remote);
	return 0;
}

int cmd_ps(int argc, char **argv)
{
	struct ps opts = {0};
	const struct opt rows[] = {
		{'a', "all", OPT_FLAG, &opts.all, NULL, "also those that have ended"},
		{'q', "quiet", OPT_FLAG, &opts.quiet, NULL, "print ids only"},
		{0, "tag", OPT_TEXT, &opts.tag, "K=V", "only those with this tag"},
		{0, "group", OPT_TEXT, &opts.group, "NAME", "only those in this group"},
		{0, "at", OPT_TEXT, &opts.at, "TIME",
	         "those that ran then: 2026-11-17T14:00, 14:00, or 2h for two hours ago"},
	};
	const struct manual manual = {
		.name = "ps",
		.synopsis = "[OPTIONS]\n[OPTIONS] SANDBOX",
		.about = "Lists your sandboxes, the newest first; in a cluster those of all nodes, "
			 "each with its node. With SANDBOX, lists the execs in it.",
		.examples = "  cloche ps\n"
			    "  cloche ps -a --tag team=blue\n"
			    "  cloche ps build\n"
			    "  cloche ps --at 2026-11-17T14:00\n"
			    "  cloche ps --json",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, ps, &opts);
}
