// SPDX-License-Identifier: Apache-2.0
/* fork and rollback: sandboxes that go on from what one is, or was. */
#include "cli/frame/command.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

struct fork {
	uint64_t count;
	const char *name, *group, *alias;
	bool is_files, is_persistent, closes;
	struct opt_list results;
};

/* For people, as ids alone go to stdout. Nothing if it was files alone. */
static void note_memory(const json_t *reply)
{
	const char *by = command_text(reply, "memory_by");
	auto_free char *why = text_escaped(command_text(reply, "memory_why"));

	if (strcmp(by, "imprint") == 0)
		(void)fprintf(stderr, "cloche: memory went over as an imprint\n");
	else if (strcmp(by, "criu") == 0)
		(void)fprintf(stderr, "cloche: memory went over by CRIU%s%s\n", why[0] ? ": " : "",
		              why);
	else if (strcmp(by, "machine") == 0)
		(void)fprintf(stderr, "cloche: memory went over with the whole machine\n");
}

/* Those that were made come first, so that a script has them whatever the exit status. */
static int print_forks(const json_t *reply, struct err *err)
{
	const json_t *made = json_object_get(reply, "sandboxes");
	const json_t *failed = json_object_get(reply, "failed");
	const json_t *one;
	size_t i;

	json_array_foreach(made, i, one)
	{
		printf("%s\n", command_text(one, "id"));
	}
	(void)fflush(stdout);
	note_memory(reply);
	json_array_foreach(failed, i, one)
	{
		auto_free char *why = text_escaped(command_text(one, "message"));

		(void)err_set(err, ERR_INTERNAL, 0, "fork %llu: %s",
		              (unsigned long long)command_number(one, "index") + 1, why);
		(void)text_fail(err);
	}
	return json_array_size(failed) > 0 ? EXIT_CLOCHE : 0;
}

static int do_fork(struct command *c, struct err *err)
{
	const struct fork *o = c->arg;
	auto_free char *path = remote_path("sandboxes", c->words[0], "fork");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	(void)json_object_set_new(body, "count", json_integer((json_int_t)o->count));
	(void)json_object_set_new(body, "memory", json_boolean(!o->is_files));
	if (o->name)
		(void)json_object_set_new(body, "name", json_string(o->name));
	if (o->group)
		(void)json_object_set_new(body, "group", json_string(o->group));
	if (o->alias)
		(void)json_object_set_new(body, "alias", json_string(o->alias));
	if (o->is_persistent)
		(void)json_object_set_new(body, "persistent", json_true());
	if (o->closes)
		(void)json_object_set_new(body, "on_connection", json_string("close"));
	r = result_opts_to_json(&o->results, body, err);
	if (r < 0)
		return r;
	remote_note(c->remote, "copying");
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (!c->common.json)
		return print_forks(reply, err);
	command_print_json(reply);
	return json_array_size(json_object_get(reply, "failed")) > 0 ? EXIT_CLOCHE : 0;
}

int cmd_fork(int argc, char **argv)
{
	struct fork opts = {.count = 1};
	const struct opt rows[] = {
		{'n', "count", OPT_NUMBER, &opts.count, "N", "how many copies (default: 1)"},
		{0, "files", OPT_FLAG, &opts.is_files, NULL,
	         "copy only the files, without running processes; takes milliseconds"},
		{0, "close-connections", OPT_FLAG, &opts.closes, NULL,
	         "close open TCP connections in the copies; otherwise an open one prevents the "
	         "fork"},
		{0, "name", OPT_TEXT, &opts.name, "NAME",
	         "the name of the copy; several copies get -1, -2 … behind it"},
		{0, "group", OPT_TEXT, &opts.group, "NAME",
	         "let the copies and the other sandboxes of this group reach each other by name"},
		{0, "alias", OPT_TEXT, &opts.alias, "NAME",
	         "the host name of the copy in the group; several copies get -1, -2 … behind it"},
		{0, "persistent", OPT_FLAG, &opts.is_persistent, NULL,
	         "keep their files when they end, until they are removed"},
		{0, "result", OPT_LIST, &opts.results, "PATH",
	         "keep this file or directory when a copy ends, for 'cloche results'; may be "
	         "repeated (default: the results of the source)"},
	};
	const struct manual manual = {
		.name = "fork",
		.synopsis = "[OPTIONS] SANDBOX",
		.about = "Makes copies of a sandbox as it is now, and prints their ids. Each copy "
			 "has the files, the running\n"
			 "programs with their memory, the environment, limits and network policy "
			 "of the sandbox, and a name of\n"
			 "its own. The sandbox goes on. Says on stderr how the memory was copied, "
			 "and "
			 "if not by an imprint, why.",
		.examples = "  cloche fork agent\n"
			    "  cloche fork --files -n 5 --name try agent\n"
			    "  cloche exec try-3 make test",
		.min_words = 1,
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status;

	status = command_main(&manual, argc, argv, do_fork, &opts);
	opt_list_done(&opts.results);
	return status;
}

static int do_rollback(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "rollback");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	(void)json_object_set_new(body, "snapshot", json_string(c->words[1]));
	remote_note(c->remote, "going back");
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, "id");
	return r;
}

int cmd_rollback(int argc, char **argv)
{
	const struct manual manual = {
		.name = "rollback",
		.synopsis = "SANDBOX SNAPSHOT",
		.about = "Brings a sandbox back to a snapshot: its processes end, its files are "
			 "replaced,\n"
			 "and it starts again with the same id and name.",
		.examples = "  cloche snapshot create --name good agent\n"
			    "  cloche exec agent sh -c 'rm -rf *'\n"
			    "  cloche rollback agent good",
		.min_words = 2,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, do_rollback, NULL);
}
