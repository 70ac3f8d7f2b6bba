// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/term/text.h"

#include <stdio.h>

static int create(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("projects");
	auto_json json_t *body = json_pack("{s:s}", "name", c->words[0]);
	auto_json json_t *project = NULL;
	int r;

	if (!body)
		return err_set(err, ERR_INVALID_FIELD, 0, "the name is not valid UTF-8");
	r = remote_call(c->remote, "POST", path, body, &project, err);
	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(project);
	else
		printf("%s\n", command_text(project, "id"));
	return 0;
}

static void print_projects(const json_t *projects)
{
	static const char *const heads[] = {"ID", "NAME", "AGE"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	size_t i;
	const json_t *p;

	json_array_foreach(projects, i, p)
	{
		uint64_t created = command_number(p, "created_us");
		char age[16];

		text_age(now > created ? now - created : 0, age);
		table_add(&t, command_text(p, "id"));
		table_add(&t, command_text(p, "name"));
		table_add(&t, age);
	}
	table_print(&t);
	table_done(&t);
}

static int list(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("projects");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "projects"));
	else
		print_projects(json_object_get(reply, "projects"));
	return 0;
}

static const struct subcommand subcommands[] = {
	{"create", create, "NAME",
         "Makes a project: a tenant with sandboxes, templates and keys of its own, which no other\n"
         "sees. Needs an admin's key of the project default.",
         "  cloche project create acme && cloche key create --project acme ci", .n_words = 1},
	{"ls", list, "[OPTIONS]", "Lists the projects.", "  cloche project ls"},
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
