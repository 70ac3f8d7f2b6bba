// SPDX-License-Identifier: Apache-2.0
/* What is kept of a sandbox that has ended. */
#include "cli/frame/command.h"
#include "cli/frame/resource.h"
#include "cli/remote/download.h"

#include <stdio.h>

static const struct column columns[] = {
	{"PATH", "path"}, {"STATE", "state"}, {"TYPE", "type"}, {"SIZE", "bytes", cell_bytes},
	{"WHY", "why"},
};
static const struct resource kept = {
	.plural = "results", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

static int list(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0]);
	auto_json json_t *reply = NULL;
	const json_t *results;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	results = json_object_get(reply, "results");
	if (c->common.json)
		command_print_json(results);
	else if (json_is_null(results))
		(void)fprintf(stderr,
		              "cloche: %s has no results: none were named when it was made "
		              "(cloche create --result PATH)\n",
		              c->words[0]);
	else
		resource_print(&kept, results);
	return 0;
}

static int results(struct command *c, struct err *err)
{
	const char *const *to = c->arg;
	auto_free char *url = NULL;

	if (c->n_words == 1)
		return list(c, err);
	url = remote_query(remote_path("sandboxes", c->words[0], "results"), "path", c->words[1]);
	return download(c->remote, url, "*/*", *to, err);
}

int cmd_results(int argc, char **argv)
{
	const char *to = NULL;
	const struct opt opts[] = {
		{'o', "output", OPT_TEXT, &to, "FILE", "write it to this file, not to stdout"},
	};
	const struct manual manual = {
		.name = "results",
		.synopsis = "[OPTIONS] SANDBOX [PATH]",
		.about = "Lists the results that are kept of a sandbox which has ended, or prints "
			 "one: a file as it was, a directory as a tar archive.\n"
			 "'cloche create --result PATH' names them. They stay as long as the "
			 "daemon remembers the sandbox, or until 'cloche rm' removes it again.",
		.examples = "  cloche results $id\n"
			    "  cloche results $id score.json\n"
			    "  cloche results $id logs | tar x",
		.min_words = 1,
		.max_words = 2,
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return command_main(&manual, argc, argv, results, &to);
}
