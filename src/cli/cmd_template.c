// SPDX-License-Identifier: Apache-2.0
/* Templates: what sandboxes start from. Each subcommand has its own place; here is the table. */
#include "cli/cmd_template.h"

static const struct subcommand subcommands[] = {
	{"ls", template_ls, "[OPTIONS]",
         "Lists templates: the project's own and those that are shared by all.",
         "  cloche template ls"},
	{"inspect", template_inspect, "[OPTIONS] TEMPLATE",
         "Shows all that is known of a template: its image, and what its maker told of it.",
         "  cloche template inspect python\n"
         "  cloche template inspect --json python | jq .manifest.packages",
         .n_words = 1},
	{"from", template_from, "[OPTIONS] SANDBOX NAME",
         "Makes a template of a sandbox's files as they are now. The sandbox may go on meanwhile. "
         "Left out\n"
         "is what belongs to one machine or person: /tmp, caches, logs, host keys, histories, "
         "tokens.",
         "  cloche template from build my-app\n"
         "  cloche template from --env STAGE=test --cwd /srv/app build my-app\n"
         "  cloche run -t my-app ls",
         .n_words = 2, .n_opts = 7},
	{"rm", template_rm, "[OPTIONS] TEMPLATE",
         "Removes a template. Refused while a sandbox runs on it or keeps files over it.",
         "  cloche template rm my-app", .n_words = 1},
};

static const struct group group = {
	.name = "template",
	.about = "Templates: read-only images that sandboxes start from.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_template(int argc, char **argv)
{
	struct template_opts opts = {0};
	const struct opt rows[] = {
		{0, "shared", OPT_FLAG, &opts.from.is_shared, NULL,
	         "for all projects; needs an admin's key of the project default"},
		{0, "replace", OPT_FLAG, &opts.from.is_replacing, NULL,
	         "the name may mean another one until now"},
		{0, "small", OPT_FLAG, &opts.from.is_small, NULL,
	         "take ten times as long and become an eighth smaller"},
		{0, "tree", OPT_FLAG, &opts.from.is_tree, NULL,
	         "the sandbox's directory /template alone is the new root"},
		{0, "user", OPT_TEXT, &opts.from.user, "USER", "who commands run as by default"},
		{0, "cwd", OPT_TEXT, &opts.from.cwd, "DIR", "and where"},
		{'e', "env", OPT_LIST, &opts.from.env, "K=V",
	         "a variable of every command, again for more"},
	};
	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.from.env);
	return status;
}
