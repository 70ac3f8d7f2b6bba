// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/term/sheet.h"

static int inspect(struct command *c, struct err *err)
{
	auto_free char *path =
		c->n_words == 1 ? remote_path("sandboxes", c->words[0])
				: remote_path("sandboxes", c->words[0], "execs", c->words[1]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	else
		sheet_print(reply);
	return 0;
}

int cmd_inspect(int argc, char **argv)
{
	const struct manual manual = {
		.name = "inspect",
		.synopsis = "[OPTIONS] SANDBOX [EXEC]",
		.about = "Shows all that is known of a sandbox or of one of its execs: limits, "
			 "times, how it ended,\nand which walls stand between it and the host "
			 "(isolation).",
		.examples = "  cloche inspect build\n"
			    "  cloche inspect --json build | jq .isolation",
		.min_words = 1,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, inspect, NULL);
}
