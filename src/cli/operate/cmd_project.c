// SPDX-License-Identifier: Apache-2.0
/* Projects: made, listed and removed. */
#include "cli/frame/group.h"

static int create(struct command *c, struct err *err)
{
	auto_json json_t *body = json_pack("{s:s}", "name", c->words[0]);

	if (!body)
		return err_set(err, ERR_INVALID_FIELD, 0, "the name is not valid UTF-8");
	return resource_create(c, body, "id", err);
}

static const struct column columns[] = {
	{"ID", "id"}, {"NAME", "name"}, {"AGE", "created_us", cell_age}};
static const struct resource projects = {
	.plural = "projects", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

static const struct subcommand subcommands[] = {
	{"create", create, "NAME",
         "Makes a project: a tenant with sandboxes, templates and keys of its own, which no other\n"
         "sees. Needs an admin's key of the project default.",
         "  cloche project create acme && cloche key create --project acme ci", .n_words = 1,
         .resource = &projects},
	{"ls", resource_ls, "[OPTIONS]", "Lists the projects.", "  cloche project ls",
         .resource = &projects},
	{"rm", resource_rm, "[OPTIONS] PROJECT",
         "Removes a project with its keys, webhooks and quotas. Refused while it has sandboxes, "
         "volumes,\n"
         "snapshots, templates or builds that go on: those are removed first, with a key of it. "
         "What it\n"
         "used stays in 'cloche usage', and what happened in 'cloche events'.",
         "  cloche project rm acme", .n_words = 1, .resource = &projects},
};

static const struct group group = {
	.name = "project",
	.about = "Projects: tenants that do not see each other.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_project(int argc, char **argv)
{
	return group_main(&group, NULL, NULL, argc, argv);
}
