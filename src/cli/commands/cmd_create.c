// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/session/fresh.h"
#include "cli/session/packages.h"
#include "cli/session/source.h"
#include "cli/session/spec.h"

#include <stdio.h>

struct create {
	struct sandbox_opts sandbox;
	struct life_opts life;
	struct source_opts source;
};

static int create(struct command *c, struct err *err)
{
	const struct create *opts = c->arg;
	auto_free char *path = remote_path("sandboxes");
	auto_json json_t *body = NULL, *reply = NULL;
	int r = sandbox_opts_to_json(&opts->sandbox, opts->life.timeout_ms, &body, err);

	if (r < 0)
		return r;
	life_opts_to_json(&opts->life, body);
	r = source_opts_to_json(&opts->source, body, err);
	if (r == 0 && !opts->life.is_get)
		r = packages_prepare(c->remote, body, err);
	if (r < 0)
		return r;
	remote_note(c->remote, fresh_note(&opts->sandbox));
	r = command_ask(c, "POST", path, body, &reply, err);
	if (r == 0)
		printf("%s\n", command_text(reply, "id"));
	return MIN(r, 0);
}

int cmd_create(int argc, char **argv)
{
	struct create opts = {0};
	const struct opt rows[] = {
		SANDBOX_OPT_ROWS(opts.sandbox),
		LIFE_OPT_ROWS(opts.life),
		SOURCE_OPT_ROWS(opts.source),
	};
	const struct manual manual = {
		.name = "create",
		.synopsis = "[OPTIONS]",
		.about = "Creates a sandbox that stays until it is removed or its time is up, and "
			 "prints its id.\nA sandbox has no network unless --allow or --network "
			 "says what it may reach.",
		.examples = "  id=$(cloche create --memory 1g --timeout 2h)\n"
			    "  cloche create --name build --tag team=blue\n"
			    "  cloche exec build uname -a\n"
			    "  cloche create --allow api.example.com --allow '*.example.org'\n"
			    "  cloche create --template python --package pandas --package apt:jq\n"
			    "  cloche create --git https://git.example.com/team/app.git --depth 1\n"
			    "  cloche create --get-or-create --name agent --persistent "
			    "--idle-timeout 10m",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main(&manual, argc, argv, create, &opts);

	sandbox_opts_done(&opts.sandbox);
	return status;
}
