// SPDX-License-Identifier: Apache-2.0
/* Snapshots: what a sandbox was at one moment. */
#include "cli/frame/group.h"
#include "cli/remote/download.h"

#include <fcntl.h>
#include <string.h>

struct snapshot_opts {
	const char *name, *sandbox, *path, *import_name;
	bool has_memory, closes, omits_memory;
	uint64_t expires_in_ms, keep_last;
};

static int snapshot_create(struct command *c, struct err *err)
{
	const struct snapshot_opts *o = c->arg;
	auto_free char *path = remote_path("sandboxes", c->words[0], "snapshots");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	if (o->name)
		(void)json_object_set_new(body, "name", json_string(o->name));
	if (o->has_memory)
		(void)json_object_set_new(body, "memory", json_true());
	if (o->closes)
		(void)json_object_set_new(body, "on_connection", json_string("close"));
	if (o->expires_in_ms)
		(void)json_object_set_new(body, "expires_in_ms",
		                          json_integer((json_int_t)o->expires_in_ms));
	if (o->keep_last)
		(void)json_object_set_new(body, "keep_last",
		                          json_integer((json_int_t)o->keep_last));
	remote_note(c->remote, o->has_memory ? "saving files and memory" : "saving files");
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, "id");
	return r;
}

static char *of_sandbox(char *path, const void *arg)
{
	const struct snapshot_opts *o = arg;

	return o->sandbox ? remote_query(path, "sandbox", o->sandbox) : path;
}

static const struct column columns[] = {
	{"ID", "id"},
	{"NAME", "name"},
	{"SANDBOX", "sandbox_id"},
	{"SIZE", "bytes", cell_bytes},
	{"OWN", "own_bytes", cell_bytes},
	{"STATE", "state"},
	{"AGE", "created_us", cell_age},
};
static const struct resource snapshots = {.plural = "snapshots",
                                          .columns = columns,
                                          .n_columns = ARRAY_SIZE(columns),
                                          .query = of_sandbox,
                                          .printed = "id"};

static int snapshot_export(struct command *c, struct err *err)
{
	const struct snapshot_opts *o = c->arg;
	auto_free char *url = remote_path("snapshots", c->words[0], "archive");

	if (!o->path && isatty(STDOUT_FILENO)) {
		(void)err_set(err, ERR_INVALID_FIELD, 0,
		              "a snapshot cannot be printed to a terminal");
		return err_hint(err, "cloche snapshot export --output %s.cloche %s", c->words[0],
		                c->words[0]);
	}
	if (o->omits_memory)
		url = remote_query(take_ptr(url), "memory", "omit");
	return download(c->remote, url, "application/x-cloche-bundle", o->path, err);
}

static ssize_t next_bytes(void *arg, char *data, size_t size, struct err *err)
{
	ssize_t n;

	do
		n = read(*(const int *)arg, data, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot read the bundle") : n;
}

static int snapshot_import(struct command *c, struct err *err)
{
	const struct snapshot_opts *o = c->arg;
	const bool is_stdin = strcmp(c->words[0], "-") == 0;
	auto_fd int fd = is_stdin ? dup(STDIN_FILENO) : open(c->words[0], O_RDONLY | O_CLOEXEC);
	const struct remote_request request = {
		.source = next_bytes, .source_arg = &fd, .source_len = -1};
	auto_free char *url = NULL;
	auto_json json_t *reply = NULL;
	int r;

	if (!o->import_name)
		return err_set(err, ERR_INVALID_FIELD, 0, "it needs a name: --name NAME");
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", c->words[0]);
	url = remote_path("snapshots", o->import_name, "archive");
	r = remote_exchange(c->remote, "PUT", url, &request, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, "id");
	return r;
}

static const struct subcommand subcommands[] = {
	{"create", snapshot_create, "[OPTIONS] SANDBOX",
         "Saves a sandbox's files as they are now, and prints the snapshot's id. The sandbox goes "
         "on.\n"
         "'cloche create --snapshot' starts another sandbox from it. 'cloche rollback' brings the "
         "same one back.",
         "  cloche snapshot create --name before-upgrade agent\n"
         "  cloche snapshot create --keep-last 5 agent\n"
         "  cloche create --snapshot before-upgrade",
         .n_words = 1, .n_opts = 5},
	{"ls", resource_ls, "[OPTIONS]",
         "Lists snapshots, the newest first. SIZE is everything that a snapshot refers to. OWN is "
         "what it is\n"
         "charged for: what no earlier snapshot of the same sandbox has.",
         "  cloche snapshot ls\n  cloche snapshot ls --sandbox agent", .first_opt = 5, .n_opts = 1,
         .resource = &snapshots},
	{"inspect", resource_inspect, "[OPTIONS] SNAPSHOT",
         "Shows all that is known of a snapshot.", "  cloche snapshot inspect before-upgrade",
         .n_words = 1, .resource = &snapshots},
	{"export", snapshot_export, "[OPTIONS] SNAPSHOT",
         "Writes a snapshot's files as one file, with a hash at its end. Variables and memory are "
         "not in it.",
         "  cloche snapshot export --output good.cloche good", .n_words = 1, .first_opt = 6,
         .n_opts = 2},
	{"import", snapshot_import, "[OPTIONS] FILE",
         "Makes a snapshot from an exported file, and prints its id. Its template has to be here. "
         "'-' is stdin.",
         "  cloche snapshot import --name good good.cloche\n  cloche create --snapshot good",
         .n_words = 1, .first_opt = 8, .n_opts = 1},
	{"rm", resource_rm, "[OPTIONS] SNAPSHOT",
         "Removes a snapshot. Sandboxes that were started from it go on: they have copies of their "
         "own.",
         "  cloche snapshot rm before-upgrade", .n_words = 1, .resource = &snapshots},
};

static const struct group group = {
	.name = "snapshot",
	.about = "Snapshots: the state of a sandbox at one moment. Start other sandboxes from it, "
		 "or go back to it.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_snapshot(int argc, char **argv)
{
	struct snapshot_opts opts = {0};
	const struct opt rows[] = {
		/* of create */
		{0, "name", OPT_TEXT, &opts.name, "NAME",
	         "its name, which no other snapshot of the project may have"},
		{0, "memory", OPT_FLAG, &opts.has_memory, NULL, "also save running processes"},
		{0, "close-connections", OPT_FLAG, &opts.closes, NULL,
	         "close open TCP connections in copies; otherwise an open one prevents --memory"},
		{0, "expires-in", OPT_MS, &opts.expires_in_ms, "TIME",
	         "remove the snapshot after this long"},
		{0, "keep-last", OPT_NUMBER, &opts.keep_last, "N",
	         "then remove older snapshots of this sandbox until N are left; those with a name "
	         "stay"},
		/* of ls */
		{0, "sandbox", OPT_TEXT, &opts.sandbox, "SANDBOX", "only those of this sandbox"},
		/* of export */
		{'o', "output", OPT_TEXT, &opts.path, "FILE",
	         "write it to this file (default: stdout)"},
		{0, "omit-memory", OPT_FLAG, &opts.omits_memory, NULL,
	         "only the files of a snapshot that has memory"},
		/* of import */
		{0, "name", OPT_TEXT, &opts.import_name, "NAME", "the snapshot's name"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
