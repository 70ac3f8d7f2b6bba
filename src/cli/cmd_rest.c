// SPDX-License-Identifier: Apache-2.0
/* stop, pause, resume, extend: one call to the sandbox's route of that name. */
#include "cli/command.h"
#include "cli/opts.h"
#include "cli/text.h"

#include <stdio.h>

struct verb {
	const char *name;
	json_t *body; /* or NULL */
};

static int post_one(struct command *c, const char *id, json_t *done, struct err *err)
{
	const struct verb *verb = c->arg;
	auto_free char *path = remote_path("sandboxes", id, verb->name);
	json_t *reply = NULL;
	int r = remote_call(c->remote, "POST", path, verb->body, &reply, err);

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

static int rest(const char *name, const char *about, const char *examples, int argc, char **argv)
{
	struct verb verb = {.name = name};
	const struct manual manual = {
		.name = name,
		.synopsis = "SANDBOX…",
		.about = about,
		.examples = examples,
		.min_words = 1,
		.max_words = WORDS_MAX,
	};

	return command_main(&manual, argc, argv, post_all, &verb);
}

int cmd_stop(int argc, char **argv)
{
	return rest("stop",
	            "Ends the processes of sandboxes. The files of a persistent one stay, and the "
	            "next command\nresumes it; any other has ended with this.",
	            "  cloche stop agent", argc, argv);
}

int cmd_pause(int argc, char **argv)
{
	return rest(
		"pause",
		"Stops all processes of sandboxes where they are. Their memory stays in use, their "
		"time does\nnot run.",
		"  cloche pause agent\n  cloche resume agent", argc, argv);
}

int cmd_resume(int argc, char **argv)
{
	return rest(
		"resume",
		"Lets paused sandboxes go on, and starts stopped persistent ones over their files.",
		"  cloche resume agent", argc, argv);
}

static int extend(struct command *c, struct err *err)
{
	struct verb *verb = c->arg;
	auto_json json_t *done = json_array();
	uint64_t ms;
	int r = opts_parse_ms(c->words[1], &ms);

	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is no time such as 90s, 10m or 2h",
		               c->words[1]);
	verb->body = json_pack("{s:I}", "ms", (json_int_t)ms);
	r = post_one(c, c->words[0], done, err);
	json_decref(verb->body);
	if (r == 0 && c->common.json)
		command_print_json(json_array_get(done, 0));
	return r;
}

int cmd_extend(int argc, char **argv)
{
	struct verb verb = {.name = "extend"};
	const struct manual manual = {
		.name = "extend",
		.synopsis = "SANDBOX TIME",
		.about = "Adds to the lifetime of a sandbox.",
		.examples = "  cloche extend build 30m",
		.min_words = 2,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, extend, &verb);
}
