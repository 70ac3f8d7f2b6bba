// SPDX-License-Identifier: Apache-2.0
/* Volumes: files that outlive sandboxes. */
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/term/sheet.h"
#include "cli/term/text.h"

#include <stdio.h>

struct volume_opts {
	uint64_t size_mib;
	bool has_one_writer;
};

static int volume_create(struct command *c, struct err *err)
{
	const struct volume_opts *o = c->arg;
	auto_free char *path = remote_path("volumes");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	if (json_object_set_new(body, "name", json_string(c->words[0])) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "the name is not valid UTF-8");
	if (o->size_mib)
		(void)json_object_set_new(body, "size_mib", json_integer((json_int_t)o->size_mib));
	if (o->has_one_writer)
		(void)json_object_set_new(body, "one_writer", json_true());
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	else
		printf("%s\n", command_text(reply, "id"));
	return 0;
}

static void print_volumes(const json_t *volumes)
{
	static const char *const heads[] = {"ID", "NAME", "USED", "SIZE", "SANDBOXES", "AGE"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	const json_t *one;
	size_t i;

	json_array_foreach(volumes, i, one)
	{
		uint64_t created = command_number(one, "created_us");
		char age[16], used[16], size[16], users[16];

		text_age(now > created ? now - created : 0, age);
		text_bytes(command_number(one, "used_bytes"), used);
		text_bytes(command_number(one, "size_mib") << 20, size);
		(void)snprintf(users, sizeof(users), "%zu",
		               json_array_size(json_object_get(one, "sandbox_ids")));
		table_add(&t, command_text(one, "id"));
		table_add(&t, command_text(one, "name"));
		table_add(&t, used);
		table_add(&t, size);
		table_add(&t, users);
		table_add(&t, age);
	}
	table_print(&t);
	table_done(&t);
}

static int volume_ls(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("volumes");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "volumes"));
	else
		print_volumes(json_object_get(reply, "volumes"));
	return 0;
}

static int volume_inspect(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("volumes", c->words[0]);
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

static int volume_rm(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("volumes", c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
}

static const struct subcommand subcommands[] = {
	{"create", volume_create, "[OPTIONS] NAME", "Makes an empty volume, and prints its id.",
         "  cloche volume create --size 10g data\n"
         "  cloche run --volume data:/data -- sh -c 'date >>/data/log'\n"
         "  cloche run --volume data:/data:ro -- cat /data/log",
         .n_words = 1, .n_opts = 2},
	{"ls", volume_ls, "[OPTIONS]", "Lists the project's volumes, and how full each is.",
         "  cloche volume ls"},
	{"inspect", volume_inspect, "[OPTIONS] VOLUME", "Shows all that is known of a volume.",
         "  cloche volume inspect data", .n_words = 1},
	{"rm", volume_rm, "[OPTIONS] VOLUME",
         "Removes a volume and all that is in it. No running sandbox may have it.",
         "  cloche volume rm data", .n_words = 1},
};

static const struct group group = {
	.name = "volume",
	.about = "Volumes: files that outlive sandboxes, and that several of them may have.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_volume(int argc, char **argv)
{
	struct volume_opts opts = {0};
	const struct opt rows[] = {
		{0, "size", OPT_MIB, &opts.size_mib, "SIZE", "what may be in it (default 1g)"},
		{0, "one-writer", OPT_FLAG, &opts.has_one_writer, NULL,
	         "let one running sandbox at a time write to it; any number may read"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
