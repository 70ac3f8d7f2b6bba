// SPDX-License-Identifier: Apache-2.0
/* Volumes: files that outlive sandboxes. */
#include "cli/frame/group.h"

struct volume_opts {
	uint64_t size_mib;
	bool has_one_writer;
	const char *source;
};

static int volume_create(struct command *c, struct err *err)
{
	const struct volume_opts *o = c->arg;
	auto_json json_t *body = json_object();

	if (json_object_set_new(body, "name", json_string(c->words[0])) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "the name is not valid UTF-8");
	if (o->size_mib)
		(void)json_object_set_new(body, "size_mib", json_integer((json_int_t)o->size_mib));
	if (o->has_one_writer)
		(void)json_object_set_new(body, "one_writer", json_true());
	if (o->source && json_object_set_new(body, "source", json_string(o->source)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "the source is not valid UTF-8");
	return resource_create(c, body, "id", err);
}

static const struct column columns[] = {
	{"ID", "id"},
	{"NAME", "name"},
	{"USED", "used_bytes", cell_bytes},
	{"SIZE", "size_mib", cell_mib},
	{"SANDBOXES", "sandbox_ids", cell_length},
	{"AGE", "created_us", cell_age},
};
static const struct resource volumes = {
	.plural = "volumes", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

static const struct subcommand subcommands[] = {
	{"create", volume_create, "[OPTIONS] NAME",
         "Makes a volume, empty or as a copy of another, and prints its id.",
         "  cloche volume create --size 10g data\n"
         "  cloche run --volume data:/data -- sh -c 'date >>/data/log'\n"
         "  cloche run --volume data:/data:ro -- cat /data/log\n"
         "  cloche volume create --from data tried",
         .n_words = 1, .n_opts = 3, .resource = &volumes},
	{"ls", resource_ls, "[OPTIONS]", "Lists the project's volumes, and how full each is.",
         "  cloche volume ls", .resource = &volumes},
	{"inspect", resource_inspect, "[OPTIONS] VOLUME", "Shows all that is known of a volume.",
         "  cloche volume inspect data", .n_words = 1, .resource = &volumes},
	{"rm", resource_rm, "[OPTIONS] VOLUME",
         "Removes a volume and all that is in it. Refused while a running sandbox has it.",
         "  cloche volume rm data", .n_words = 1, .resource = &volumes},
};

static const struct group group = {
	.name = "volume",
	.about = "Volumes: files that outlive sandboxes, and that several sandboxes can share.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_volume(int argc, char **argv)
{
	struct volume_opts opts = {0};
	const struct opt rows[] = {
		{0, "size", OPT_MIB, &opts.size_mib, "SIZE", "how much fits in it (default 1g)"},
		{0, "one-writer", OPT_FLAG, &opts.has_one_writer, NULL,
	         "let one running sandbox at a time write to it; any number may read"},
		{0, "from", OPT_TEXT, &opts.source, "VOLUME",
	         "copy the files of this volume as they are now; and its size, if you give none"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
