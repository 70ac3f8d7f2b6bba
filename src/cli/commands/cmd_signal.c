// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"
#include "cli/frame/command.h"

#include <string.h>

struct signal_opts {
	const char *signal;
	bool tree;
};

/* Without an exec's id there must be one that is running, and one only. */
static int find_running(struct command *c, char **ret, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "execs");
	auto_json json_t *reply = NULL;
	const char *found = NULL;
	size_t i;
	const json_t *exec;
	int r;

	if (c->n_words == 2) {
		*ret = xstrdup(c->words[1]);
		return 0;
	}
	r = remote_call(c->remote, "GET", path, NULL, &reply, err);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(reply, "execs"), i, exec)
	{
		const char *state = command_text(exec, "state");

		if (strcmp(state, "running") != 0 && strcmp(state, "starting") != 0)
			continue;
		if (found) {
			(void)err_set(err, ERR_CONFLICT, 0, "several execs are running in '%s'",
			              c->words[0]);
			return err_hint(err, "name one of them: 'cloche ps %s' lists them",
			                c->words[0]);
		}
		found = command_text(exec, "id");
	}
	if (!found)
		return err_set(err, ERR_NOT_FOUND, 0, "nothing is running in '%s'", c->words[0]);
	*ret = xstrdup(found);
	return 0;
}

static int send_signal(struct command *c, struct err *err)
{
	const struct signal_opts *opts = c->arg;
	const char *name = opts->signal ? opts->signal : "TERM";
	auto_json json_t *body = json_object(), *reply = NULL;
	auto_free char *exec_id = NULL;
	auto_free char *path = NULL;
	uint64_t number;
	int r = find_running(c, &exec_id, err);

	if (r < 0)
		return r;
	path = remote_path("sandboxes", c->words[0], "execs", exec_id, "signal");
	(void)json_object_set_new(body, "signal",
	                          parse_u64(name, 64, &number) == 0
	                                  ? json_integer((json_int_t)number)
	                                  : json_string(name));
	(void)json_object_set_new(body, "tree", json_boolean(opts->tree));
	r = command_ask(c, "POST", path, body, &reply, err);
	return MIN(r, 0);
}

int cmd_signal(int argc, char **argv)
{
	struct signal_opts opts = {0};
	const struct opt rows[] = {
		{'s', "signal", OPT_TEXT, &opts.signal, "SIGNAL",
	         "its name or number (default TERM)"},
		{0, "tree", OPT_FLAG, &opts.tree, NULL,
	         "send it to everything that the exec has started, not only to its process group"},
	};
	const struct manual manual = {
		.name = "signal",
		.synopsis = "[OPTIONS] SANDBOX [EXEC]",
		.about =
			"Sends a signal to an exec. Without EXEC: to the only one that is running.",
		.examples = "  cloche signal build\n"
			    "  cloche signal -s INT build ex_k3v9…\n"
			    "  cloche signal -s KILL --tree build",
		.min_words = 1,
		.max_words = 2,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, send_signal, &opts);
}
