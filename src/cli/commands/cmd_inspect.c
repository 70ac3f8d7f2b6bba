// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"

static int inspect(struct command *c, struct err *err)
{
	auto_free char *path =
		c->n_words == 1 ? remote_path("sandboxes", c->words[0])
				: remote_path("sandboxes", c->words[0], "execs", c->words[1]);

	return command_inspect(c, path, err);
}

int cmd_inspect(int argc, char **argv)
{
	const struct manual manual = {
		.name = "inspect",
		.synopsis = "[OPTIONS] SANDBOX [EXEC]",
		.about = "Shows all that is known of a sandbox, or of one of its execs: limits, "
			 "times, how it ended,\n"
			 "and what isolates it from the host.",
		.examples = "  cloche inspect build\n"
			    "  cloche inspect --json build | jq .isolation",
		.min_words = 1,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, inspect, NULL);
}
