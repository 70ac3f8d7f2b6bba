// SPDX-License-Identifier: Apache-2.0
/* Templates: what sandboxes start from. Each subcommand has its own place; here is the table. */
#include "cli/template/cmd_template.h"

static const struct subcommand subcommands[] = {
	{"ls", template_ls, "[OPTIONS]",
         "Lists templates: the project's own and those that are shared by all. Those that are "
         "being built\nare named below, on stderr.",
         "  cloche template ls", .resource = &template_resource},
	{"inspect", resource_inspect, "[OPTIONS] TEMPLATE",
         "Shows all that is known of a template: its image, and its manifest.",
         "  cloche template inspect python\n"
         "  cloche template inspect --json python | jq .manifest.packages",
         .n_words = 1, .resource = &template_resource},
	{"from", template_from, "[OPTIONS] SANDBOX|SNAPSHOT NAME",
         "Makes a template of a sandbox's files as they are now, or of those in a snapshot. The "
         "sandbox may go on\n"
         "meanwhile. What belongs to one machine or person is left out: /tmp, caches, logs, host "
         "keys, histories,\n"
         "tokens.",
         "  cloche template from build my-app\n"
         "  cloche template from --env STAGE=test --cwd /srv/app build my-app\n"
         "  cloche run -T my-app ls",
         .n_words = 2, .first_opt = 9, .n_opts = 7},
	{"build", template_build, "[OPTIONS] NAME|FILE|CONTEXT",
         "Builds a template from a recipe: one that comes with cloche, by its name, or a file of "
         "your\n"
         "own. Those that come: base, python, python-datasci, node, node22, node26, bun, "
         "universal, r, java,\n"
         "claude, codex, opencode, mcp-gateway.\n"
         "With --dockerfile it is built from a Dockerfile. COPY takes files from the directory "
         "CONTEXT (by default the\n"
         "Dockerfile's), except those that .dockerignore excludes.\n"
         "It is built in sandboxes, and the build goes on if this command is interrupted. The\n"
         "template gets its name when it is complete.",
         "  cloche template build python\n"
         "  cloche template build --shared universal\n"
         "  cloche template build --detach ./my-agent.toml\n"
         "  cloche template build --dockerfile . --name my-app --build-arg VERSION=2",
         .n_more = 1, .n_opts = 9},
	{"builds", resource_ls, "[OPTIONS]", "Lists the project's builds, the newest first.",
         "  cloche template builds", .resource = &build_resource},
	{"log", template_log, "[OPTIONS] BUILD_ID", "Prints what a build has printed so far.",
         "  cloche template log bld_k3v9…", .n_words = 1},
	{"cancel", resource_rm, "[OPTIONS] BUILD_ID",
         "Cancels a build. Steps that were complete are kept for the next build.",
         "  cloche template cancel bld_k3v9…", .n_words = 1, .resource = &build_resource},
	{"export", template_export, "[OPTIONS] TEMPLATE",
         "Writes a template to stdout or a file, as one OCI image layout in a tar. `cloche "
         "template "
         "import`\n"
         "makes the same image of it, here or elsewhere; container engines load it, too.",
         "  cloche template export python > python.tar\n"
         "  cloche template export my-app | ssh other cloche template import --name my-app -",
         .n_words = 1, .first_opt = 21, .n_opts = 1},
	{"import", template_import, "[OPTIONS] PATH|-",
         "Makes a template of an image from elsewhere: what `cloche template export` or `docker "
         "save` wrote,\n"
         "an OCI image layout, or the root of a machine. A file or stdin is a tar, which may be "
         "compressed\n"
         "with gzip or zstd; a directory is a layout or a root. It is unpacked in a sandbox of its "
         "own,\nnever on the host. Without --name it is named after the file.",
         "  docker save my-app:1 | cloche template import --name my-app -\n"
         "  cloche template import ./layout --name my-app --ref 1.2\n"
         "  cloche template import rootfs.tar.zst",
         .n_words = 1, .first_opt = 16, .n_opts = 5},
	{"pull", template_pull, "[OPTIONS] IMAGE",
         "Makes a template of an image in a registry, [HOST[:PORT]/]NAME[:TAG][@DIGEST]. It is "
         "fetched and\n"
         "unpacked in a sandbox of its own. Without --name it is named after the image, such as "
         "app-1.2.\n"
         "With --username, the password is taken from $CLOCHE_REGISTRY_PASSWORD; secret://NAME "
         "means a\n"
         "secret of the project. It goes to the registry alone, and never into the sandbox. The\n"
         "pull goes on if this command is interrupted, unless it still waits for its turn.",
         "  cloche template pull registry.example.com/team/app:1.2\n"
         "  cloche template pull --name app --username bot registry.example.com/team/app:1.2",
         .n_words = 1, .first_opt = 22, .n_opts = 6},
	{"rm", resource_rm, "[OPTIONS] TEMPLATE",
         "Removes a template. Refused while a sandbox runs on it or keeps files over it.",
         "  cloche template rm my-app", .n_words = 1, .resource = &template_resource},
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
		/* of build */
		{0, "shared", OPT_FLAG, &opts.build.is_shared, NULL,
	         "for all projects; needs an admin key of the project default"},
		{0, "fresh", OPT_FLAG, &opts.build.is_fresh, NULL, "build everything again"},
		{0, "retries", OPT_NUMBER, &opts.build.retries, "N",
	         "if a step fails, begin again after a pause, up to N times (at most 5)"},
		{'d', "detach", OPT_FLAG, &opts.build.is_detached, NULL,
	         "print the build's id and leave it running"},
		{'v', "verbose", OPT_FLAG, &opts.build.is_verbose, NULL,
	         "print all that the build prints"},
		{0, "dockerfile", OPT_TEXT, &opts.build.docker.path, "PATH",
	         "a Dockerfile, or a directory that has one"},
		{0, "name", OPT_TEXT, &opts.build.docker.name, "NAME",
	         "of a Dockerfile's template (that of the directory)"},
		{0, "build-arg", OPT_LIST, &opts.build.docker.args, "K=V",
	         "a value for an ARG of the Dockerfile; may be repeated"},
		{0, "target", OPT_TEXT, &opts.build.docker.target, "STAGE",
	         "the stage of the Dockerfile that becomes the template (the last)"},
		/* of from */
		{0, "shared", OPT_FLAG, &opts.from.is_shared, NULL,
	         "for all projects; needs an admin key of the project default"},
		{0, "replace", OPT_FLAG, &opts.from.is_replacing, NULL,
	         "replace the template that has this name"},
		{0, "small", OPT_FLAG, &opts.from.is_small, NULL,
	         "make it an eighth smaller, which takes ten times as long"},
		{0, "tree", OPT_FLAG, &opts.from.is_tree, NULL,
	         "take only the sandbox's directory /template, as the new root"},
		{0, "user", OPT_TEXT, &opts.from.user, "USER",
	         "the user that commands run as by default"},
		{0, "cwd", OPT_TEXT, &opts.from.cwd, "DIR",
	         "the directory that commands start in by default"},
		{'e', "env", OPT_LIST, &opts.from.env, "K=V",
	         "a variable for every command; may be repeated"},
		/* of import */
		{0, "name", OPT_TEXT, &opts.import.name, "NAME", "the template's name"},
		{0, "ref", OPT_TEXT, &opts.import.ref, "REF",
	         "which image, by its name or tag, where there are several"},
		{0, "shared", OPT_FLAG, &opts.import.is_shared, NULL,
	         "for all projects; needs an admin key of the project default"},
		{0, "replace", OPT_FLAG, &opts.import.is_replacing, NULL,
	         "replace the template that has this name"},
		{0, "small", OPT_FLAG, &opts.import.is_small, NULL,
	         "make it an eighth smaller, which takes ten times as long"},
		/* of export */
		{'o', "output", OPT_TEXT, &opts.export.path, "FILE",
	         "write it to this file, which is there once it is complete"},
		/* of pull */
		{0, "name", OPT_TEXT, &opts.pull.name, "NAME", "the template's name"},
		{0, "username", OPT_TEXT, &opts.pull.username, "USER", "the registry's user"},
		{0, "token-host", OPT_TEXT, &opts.pull.token_host, "HOST[:PORT]",
	         "another host that may have the password, to give tokens for it"},
		{0, "shared", OPT_FLAG, &opts.pull.is_shared, NULL,
	         "for all projects; needs an admin key of the project default"},
		{0, "replace", OPT_FLAG, &opts.pull.is_replacing, NULL,
	         "replace the template that has this name"},
		{0, "small", OPT_FLAG, &opts.pull.is_small, NULL,
	         "make it an eighth smaller, which takes ten times as long"},
	};
	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.from.env);
	opt_list_done(&opts.build.docker.args);
	return status;
}
