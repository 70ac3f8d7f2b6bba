// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/remote/events.h"

#include <signal.h>

struct logs {
	bool follow;
};

/* Without an exec's id: the newest one. */
static int find_exec(struct command *c, char **ret, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "execs");
	auto_json json_t *reply = NULL;
	const json_t *newest;
	int r;

	if (c->n_words == 2) {
		*ret = xstrdup(c->words[1]);
		return 0;
	}
	r = remote_call(c->remote, "GET", path, NULL, &reply, err);
	if (r < 0)
		return r;
	newest = json_array_get(json_object_get(reply, "execs"), 0);
	if (!newest)
		return err_set(err, ERR_NOT_FOUND, 0, "nothing has been run in '%s'", c->words[0]);
	*ret = xstrdup(command_text(newest, "id"));
	return 0;
}

static int logs(struct command *c, struct err *err)
{
	const struct logs *opts = c->arg;
	struct output output;
	struct events e = {.remote = c->remote, .sandbox = c->words[0], .output = &output};
	int r;

	output_init(&output, c->common.json ? OUTPUT_EVENTS : OUTPUT_RAW);
	r = find_exec(c, &e.exec_id, err);
	if (r == 0)
		r = events_resume(&e, opts->follow, err);
	if (r == 0)
		r = opts->follow ? events_follow(&e, err) : events_read(&e, err);
	events_done(&e);
	output_done(&output);
	if (r == -EPIPE)
		return EXIT_SIGNAL + SIGPIPE;
	return r < 0 ? r : 0;
}

int cmd_logs(int argc, char **argv)
{
	struct logs opts = {0};
	const struct opt rows[] = {
		{'f', "follow", OPT_FLAG, &opts.follow, NULL, "go on until the exec is over"},
	};
	const struct manual manual = {
		.name = "logs",
		.synopsis = "[OPTIONS] SANDBOX [EXEC]",
		.about =
			"Prints what an exec has written: stdout to stdout, and stderr to stderr. "
			"Without EXEC it is the newest\n"
			"one. With -f it goes on until the exec is over, even if the daemon "
			"restarts meanwhile. Of each exec\n"
			"the daemon keeps the last 16 MiB (setting `spool`). If a part is missing, "
			"a line says so.",
		.examples = "  cloche logs build\n"
			    "  cloche logs -f build ex_k3v9…\n"
			    "  cloche logs --json build | jq -r .type",
		.min_words = 1,
		.max_words = 2,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, logs, &opts);
}
