// SPDX-License-Identifier: Apache-2.0
/*
 * Exports of the event log and the audit log. The daemon is asked for seals first. What is exported
 * of a chain ends at the entry that its seal names, whatever happens meanwhile. The file has the
 * lines of the log as they were hashed, and behind them a line for each seal.
 */
#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/frame/group.h"
#include "cli/remote/lines.h"
#include "event/verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 65536

struct audit_opts {
	const char *project;
	bool all;
	uint64_t since_ms;
};

struct export_file {
	FILE *out;
	json_t *heads;       /* of each chain: its last number */
	const char *project; /* only of this one, by id; NULL: all that come */
	uint64_t after_us;
	uint64_t n, n_former_left_out;
	bool is_of_all;
};

/* Whether the seal is of what is exported. */
static bool is_wanted_seal(const struct export_file *file, const json_t *statement)
{
	return !file->project || strcmp(command_text(statement, "project_id"), file->project) == 0;
}

static int read_heads(struct export_file *file, const json_t *seals, struct err *err)
{
	const json_t *seal;
	size_t i;

	file->heads = json_object();
	json_array_foreach(seals, i, seal)
	{
		const char *text = command_text(seal, "statement");
		auto_json json_t *statement = NULL;
		char name[CHAIN_NAME_SIZE];
		int r = json_parse(text, strlen(text), &statement, err);

		if (r < 0)
			return err_prefix(err, "a seal");
		chain_name(name, command_text(statement, "project_id"),
		           json_is_true(json_object_get(statement, "former")),
		           json_is_true(json_object_get(statement, "audit")));
		if (is_wanted_seal(file, statement))
			(void)json_object_set_new(
				file->heads, name,
				json_integer((json_int_t)command_number(
					json_object_get(statement, "head"), "seq")));
	}
	return 0;
}

/* An entry that is too old is left out, but for the last of its chain, which the seal names. */
static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct export_file *file = arg;
	struct chain_link link;
	auto_json json_t *entry = NULL;
	const json_t *head;
	int r = chain_check_line(line, len, &link, err);

	if (r < 0)
		return r;
	head = json_object_get(file->heads, link.chain);
	if (link.is_former && !file->is_of_all) {
		file->n_former_left_out++;
		return 0;
	}
	if (!head || link.seq > (uint64_t)json_integer_value(head))
		return 0;
	r = json_parse(line, len, &entry, err);
	if (r < 0)
		return err_prefix(err, "an event");
	if (command_number(entry, "at_us") < file->after_us &&
	    link.seq != (uint64_t)json_integer_value(head))
		return 0;
	file->n++;
	return fprintf(file->out, "%.*s\n", (int)len, line) < 0
	               ? err_set(err, ERR_INTERNAL, errno, "cannot write the export")
	               : 0;
}

static int export_log(struct command *c, struct export_file *file, bool is_audit, struct err *err)
{
	const struct audit_opts *opts = c->arg;
	const struct remote_request request = {.accept = "application/x-ndjson"};
	const bool asks_all = opts->all || opts->project;
	auto_free char *path = remote_query(remote_path("events"), "audit", is_audit ? "1" : "0");
	int r;

	if (asks_all)
		path = remote_query(path, "all", "1");
	r = remote_begin(c->remote, "GET", path, &request, err);
	return r == 0 ? lines_read(c->remote, LINE_MAX_BYTES, take_line, file, err) : r;
}

static int put_seals(struct export_file *file, const json_t *seals, struct err *err)
{
	const json_t *seal;
	size_t i;

	json_array_foreach(seals, i, seal)
	{
		const char *text = command_text(seal, "statement");
		auto_json json_t *statement = NULL;
		auto_free char *line = json_dumps(seal, JSON_COMPACT);
		int r = json_parse(text, strlen(text), &statement, err);

		if (r < 0)
			return err_prefix(err, "a seal");
		if (is_wanted_seal(file, statement) && fprintf(file->out, "%s\n", line) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot write the export");
	}
	return 0;
}

/* The id of a project that is named or given by its id. For free(). */
static int find_project(struct command *c, const char *text, char **ret, struct err *err)
{
	auto_free char *path = remote_path("projects");
	auto_json json_t *reply = NULL;
	const json_t *project;
	size_t i;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(reply, "projects"), i, project)
	{
		const char *id = command_text(project, "id");

		if (strcmp(id, text) != 0 && strcmp(command_text(project, "name"), text) != 0)
			continue;
		*ret = xstrdup(id);
		return 0;
	}
	(void)err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", text);
	return err_hint(err, "'cloche project ls' lists them");
}

static int export_to(struct command *c, struct export_file *file, struct err *err)
{
	const struct audit_opts *opts = c->arg;
	auto_free char *path = remote_query(remote_path("events", "seals"), "all",
	                                    opts->all || opts->project ? "1" : "0");
	auto_json json_t *reply = NULL;
	const json_t *seals;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	seals = json_object_get(reply, "seals");
	if (r == 0)
		r = read_heads(file, seals, err);
	if (r == 0)
		r = export_log(c, file, /* is_audit= */ false, err);
	if (r == 0)
		r = export_log(c, file, /* is_audit= */ true, err);
	if (r == 0)
		r = put_seals(file, seals, err);
	if (r == 0 && fflush(file->out) != 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot write the export");
	return r;
}

/* An export that fails leaves what was at that path as it was. */
static int export_file_to(struct command *c, struct export_file *file, const char *path,
                          struct err *err)
{
	auto_free char *partial = xasprintf("%s.partial", path);
	int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), r;

	file->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file->out)
		return err_set(err, ERR_INVALID_FIELD, errno, "cannot write '%s'", partial);
	r = export_to(c, file, err);
	if (fclose(file->out) != 0 && r == 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot write the export");
	if (r == 0 && rename(partial, path) < 0)
		r = err_set(err, ERR_INVALID_FIELD, errno, "cannot write '%s'", path);
	if (r < 0)
		(void)unlink(partial);
	return r;
}

static int export(struct command *c, struct err *err)
{
	const struct audit_opts *opts = c->arg;
	const bool is_stdout = strcmp(c->words[0], "-") == 0;
	auto_free char *project = NULL;
	struct export_file file = {.out = stdout, .is_of_all = opts->all && !opts->project};
	int r = opts->project ? find_project(c, opts->project, &project, err) : 0;

	if (r < 0)
		return r;
	file.project = project;
	if (opts->since_ms)
		file.after_us = clock_wall_us() - opts->since_ms * 1000;
	r = is_stdout ? export_to(c, &file, err) : export_file_to(c, &file, c->words[0], err);
	json_decref(file.heads);
	if (r < 0)
		return r;
	if (file.n_former_left_out > 0)
		(void)fprintf(stderr,
		              "cloche: %" PRIu64 " entries from before projects had chains of "
		              "their own are only in an export with --all\n",
		              file.n_former_left_out);
	if (!is_stdout)
		(void)fprintf(stderr, "%" PRIu64 " entries, sealed\n", file.n);
	return 0;
}

static int show_key(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("events", "seals");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r == 0)
		printf("%s", command_text(reply, "key"));
	return r;
}

static const struct subcommand subcommands[] = {
	{"export", export, "[OPTIONS] FILE",
         "Writes the event log and the audit log to FILE (- for stdout): a line for each entry, "
         "then the\ndaemon's signatures (seals). 'cloche audit verify' checks it on any machine.",
         "  cloche audit export audit.jsonl\n"
         "  cloche audit export --since 30d --project web audit.jsonl\n"
         "  cloche audit export --all audit.jsonl",
         .n_words = 1, .n_opts = 3},
	{"key", show_key, "[OPTIONS]",
         "Prints the public key of the daemon's seals. Keep it where exports are checked.",
         "  cloche audit key > audit.pub", .n_words = 0, .n_opts = 0},
};

static const struct group group = {
	.name = "audit",
	.about = "Who did what, from where: exports that a third party can check.\n"
		 "'cloche audit verify FILE --key PUB' checks one, and needs no daemon; 'cloche "
		 "events --audit' shows the\naudit log.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_audit(int argc, char **argv)
{
	struct audit_opts opts = {0};
	const struct opt rows[] = {
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "of another project; only for admins of the project default"},
		{'a', "all", OPT_FLAG, &opts.all, NULL,
	         "of all projects and of the daemon; only for admins of the project default"},
		{0, "since", OPT_MS, &opts.since_ms, "TIME",
	         "only entries of the last TIME, such as 12h or 30d"},
	};

	if (argc > 1 && strcmp(argv[1], "verify") == 0)
		return cmd_audit_verify(argc - 1, argv + 1);
	return group_main(&group, rows, &opts, argc, argv);
}
