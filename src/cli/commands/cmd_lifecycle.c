// SPDX-License-Identifier: Apache-2.0
/* stop, pause, resume, extend: one call to the sandbox's route of that name. */
#include "cli/frame/command.h"
#include "cli/term/opts.h"
#include "cli/term/text.h"

#include <stdio.h>

struct verb {
	const char *name;
	const char *note; /* while it takes long */
	json_t *body;     /* or NULL */
};

static int post_one(struct command *c, const char *id, json_t *done, struct err *err)
{
	const struct verb *verb = c->arg;
	auto_free char *path = remote_path("sandboxes", id, verb->name);
	json_t *reply = NULL;
	int r;

	remote_note(c->remote, verb->note);
	r = remote_call(c->remote, "POST", path, verb->body, &reply, err);

	if (r < 0)
		return r;
	if (!c->common.json) {
		auto_free char *shown = text_escaped(id);

		printf("%s\n", shown);
	}
	(void)json_array_append_new(done, reply);
	return 0;
}

/* Tells of each failure and goes on with the others. */
static int post_all(struct command *c, struct err *err)
{
	auto_json json_t *done = json_array();
	bool ok = true;

	for (size_t i = 0; i < c->n_words; i++) {
		if (post_one(c, c->words[i], done, err) == 0)
			continue;
		(void)text_fail(err);
		ok = false;
	}
	if (c->common.json)
		command_print_json(done);
	return ok ? 0 : EXIT_CLOCHE;
}

int cmd_stop(int argc, char **argv)
{
	struct verb verb = {.name = "stop", .note = "stopping"};
	const struct manual manual = {
		.name = "stop",
		.synopsis = "SANDBOX…",
		.about = "Ends the processes of sandboxes. A persistent sandbox keeps its files, "
			 "and the next command resumes\n"
			 "it. Any other sandbox ends with this.",
		.examples = "  cloche stop agent",
		.min_words = 1,
		.max_words = WORDS_MAX,
	};

	return command_main(&manual, argc, argv, post_all, &verb);
}

struct pause_opts {
	struct verb verb;
	const char *to;
	bool closes;
};

static int pause_all(struct command *c, struct err *err)
{
	struct pause_opts *o = c->arg;
	auto_json json_t *body = json_object();

	if (o->to)
		(void)json_object_set_new(body, "to", json_string(o->to));
	if (o->closes)
		(void)json_object_set_new(body, "on_connection", json_string("close"));
	o->verb.body = body;
	c->arg = &o->verb;
	return post_all(c, err);
}

int cmd_pause(int argc, char **argv)
{
	struct pause_opts opts = {.verb = {.name = "pause", .note = "pausing"}};
	const struct opt rows[] = {
		{0, "to", OPT_TEXT, &opts.to, "PLACE",
	         "disk or memory (default: disk if that is possible)"},
		{0, "close-connections", OPT_FLAG, &opts.closes, NULL,
	         "close open TCP connections; otherwise an open one prevents a pause to disk"},
	};
	const struct manual manual = {
		.name = "pause",
		.synopsis = "[OPTIONS] SANDBOX…",
		.about = "Stops all processes of sandboxes where they are. Their lifetime does not "
			 "run meanwhile. By default they\n"
			 "are saved to disk: then they take no memory, they survive a restart of "
			 "the machine, and the next\n"
			 "command resumes them. A pause in memory is done at once.",
		.examples = "  cloche pause agent\n  cloche resume agent\n"
			    "  cloche pause --to memory agent",
		.min_words = 1,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, pause_all, &opts);
}

struct resume_opts {
	struct verb verb;
	bool is_files;
};

static int resume_all(struct command *c, struct err *err)
{
	struct resume_opts *o = c->arg;
	auto_json json_t *body = json_pack("{s:b}", "memory", !o->is_files);

	o->verb.body = body;
	c->arg = &o->verb;
	return post_all(c, err);
}

int cmd_resume(int argc, char **argv)
{
	struct resume_opts opts = {.verb = {.name = "resume", .note = "resuming"}};
	const struct opt rows[] = {
		{0, "files", OPT_FLAG, &opts.is_files, NULL,
	         "if it is paused on disk, resume only its files; its programs are lost"},
	};
	const struct manual manual = {
		.name = "resume",
		.synopsis = "[OPTIONS] SANDBOX…",
		.about = "Resumes paused sandboxes, and starts stopped persistent ones again with "
			 "their files.",
		.examples = "  cloche resume agent",
		.min_words = 1,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, resume_all, &opts);
}

static int extend(struct command *c, struct err *err)
{
	struct verb *verb = c->arg;
	auto_json json_t *done = json_array();
	uint64_t ms;
	int r = opts_parse_ms(c->words[1], &ms);

	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "'%s' is not a time such as 90s, 10m or 2h", c->words[1]);
	verb->body = json_pack("{s:I}", "ms", (json_int_t)ms);
	r = post_one(c, c->words[0], done, err);
	json_decref(verb->body);
	if (r == 0 && c->common.json)
		command_print_json(json_array_get(done, 0));
	return r;
}

int cmd_extend(int argc, char **argv)
{
	struct verb verb = {.name = "extend", .note = "extending"};
	const struct manual manual = {
		.name = "extend",
		.synopsis = "SANDBOX TIME",
		.about = "Adds TIME to the lifetime of a sandbox.",
		.examples = "  cloche extend build 30m",
		.min_words = 2,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, extend, &verb);
}
