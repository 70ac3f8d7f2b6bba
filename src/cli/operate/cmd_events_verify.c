// SPDX-License-Identifier: Apache-2.0
/*
 * Holds the chains of the event log against their own hashes: of an export, without any daemon, or
 * of what a daemon has, both ends of each chain included.
 */
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/term/text.h"
#include "event/verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 65536

struct verify_opts {
	bool partial, all, audit;
	const char *head;
};

struct check {
	bool is_partial;
	uint64_t n;
	struct chain_link first, last;
	struct chain_export *export;
};

static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct check *check = arg;
	struct chain_link link;
	int r = chain_check_line(line, len, &link, err);

	if (r == 0)
		r = chain_export_add(check->export, &link, check->is_partial, err);
	if (r < 0)
		return r;
	if (check->n++ == 0)
		check->first = link;
	check->last = link;
	return 0;
}

static int verify_file(const char *path, struct check *check, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	auto_fd int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
	return lines_read_fd(fd, LINE_MAX_BYTES, take_line, check, err);
}

/* What the daemon holds of a chain must begin behind its anchor and end in its head. */
static int check_ends(const struct chain_seen *seen, const json_t *told, struct err *err)
{
	static const struct chain_seen none;
	const json_t *anchor = json_object_get(told, "anchor");
	const json_t *head = json_object_get(told, "head");
	const uint64_t head_seq = command_number(head, "seq");

	if (!seen)
		seen = &none;
	if (seen->n > 0 && command_number(anchor, "seq") < seen->first.seq &&
	    strcmp(command_text(anchor, "hash"), seen->first.prev) != 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the log's beginning is missing: entry %" PRIu64
		               " does not follow the last one that was removed in order",
		               seen->first.seq);
	if (seen->n == 0 ? command_number(told, "count") > 0
	                 : head_seq > seen->last.seq ||
	                           (head_seq == seen->last.seq &&
	                            strcmp(command_text(head, "hash"), seen->last.hash) != 0))
		return err_set(err, ERR_CONFLICT, 0,
		               "the log's end is missing after entry %" PRIu64, seen->last.seq);
	return 0;
}

static bool is_of_audit(const json_t *chain)
{
	return json_is_true(json_object_get(chain, "audit"));
}

static int check_all_ends(const struct check *check, const struct verify_opts *opts,
                          const json_t *told, struct err *err)
{
	const json_t *former = json_object_get(told, "former");
	const json_t *chain;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(told, "chains"), i, chain)
	{
		const char *project = command_text(chain, "project_id");

		auto_free char *name =
			xasprintf("%s%s", project, is_of_audit(chain) ? CHAIN_AUDIT : "");

		if (is_of_audit(chain) != opts->audit)
			continue;
		r = check_ends(chain_export_find(check->export, name), chain, err);
		if (r < 0)
			return *project ? err_prefix(err, "project %s", project) : r;
	}
	if (json_is_object(former) && !opts->audit)
		r = check_ends(chain_export_find(check->export, CHAIN_FORMER), former, err);
	return r < 0 ? err_prefix(err, "the former chain") : 0;
}

static int verify_remote(struct command *c, struct check *check, struct err *err)
{
	const struct verify_opts *opts = c->arg;
	const struct remote_request request = {.accept = "application/x-ndjson"};
	const char *all = opts->all ? "1" : "0", *audit = opts->audit ? "1" : "0";
	auto_free char *head_path = remote_query(
		remote_query(remote_path("events", "head"), "all", all), "audit", audit);
	auto_free char *path =
		remote_query(remote_query(remote_path("events"), "all", all), "audit", audit);
	auto_json json_t *told = NULL;
	int r = remote_open(&c->common, &c->remote, err);

	if (r == 0)
		r = remote_call(c->remote, "GET", head_path, NULL, &told, err);
	if (r == 0)
		r = remote_begin(c->remote, "GET", path, &request, err);
	if (r == 0)
		r = lines_read(c->remote, LINE_MAX_BYTES, take_line, check, err);
	if (r < 0)
		return r;
	if (opts->all)
		return check_all_ends(check, opts, told, err);
	return check_ends(
		check->last.is_former ? NULL : chain_export_find(check->export, check->last.chain),
		told, err);
}

static void tell(const struct command *c, const struct check *check)
{
	const size_t n_chains = chain_export_count(check->export);

	if (c->common.json)
		printf("{\"entries\":%" PRIu64 ",\"chains\":%zu,\"first_seq\":%" PRIu64
		       ",\"last_seq\":%" PRIu64 ",\"head\":\"%s\"}\n",
		       check->n, n_chains, check->first.seq, check->last.seq, check->last.hash);
	else if (n_chains > 1)
		printf("%" PRIu64 " entries of %zu chains are as they were written\n", check->n,
		       n_chains);
	else
		printf("%" PRIu64 " entries are as they were written (%" PRIu64 " to %" PRIu64
		       "), head %s\n",
		       check->n, check->first.seq, check->last.seq, check->last.hash);
}

static int verify(struct command *c, struct err *err)
{
	const struct verify_opts *opts = c->arg;
	struct check check = {.is_partial = opts->partial, .export = chain_export_new()};
	int r = c->n_words > 0 ? verify_file(c->words[0], &check, err)
	                       : verify_remote(c, &check, err);

	if (r == 0 && opts->head && strcmp(opts->head, check.last.hash) != 0)
		r = err_set(err, ERR_CONFLICT, 0, "the last entry's hash is %s", check.last.hash);
	if (r == 0)
		tell(c, &check);
	chain_export_free(check.export);
	return r;
}

int cmd_events_verify(int argc, char **argv)
{
	struct verify_opts opts = {0};
	const struct opt rows[] = {
		{'a', "all", OPT_FLAG, &opts.all, NULL,
	         "the chains of all projects and of the daemon (needs an admin key)"},
		{0, "audit", OPT_FLAG, &opts.audit, NULL,
	         "the audit log, which has chains of its own"},
		{0, "partial", OPT_FLAG, &opts.partial, NULL,
	         "entries are missing on purpose: check each by itself"},
		{0, "head", OPT_TEXT, &opts.head, "HASH", "what the last entry's hash must be"},
	};
	const struct manual manual = {
		.name = "events verify",
		.synopsis = "[OPTIONS] [FILE]",
		.about = "Checks that no entry of the event log was changed, removed or put in. "
			 "Every project has a chain\nof its own. FILE is an export "
			 "('cloche events --json', with or without --all; - for stdin) and\nneeds "
			 "no daemon; without it the daemon is asked for the project's chain. An "
			 "export of one sandbox\nor of some types has gaps: --partial.",
		.examples = "  cloche events verify\n"
			    "  cloche events verify --all\n"
			    "  cloche events verify events.jsonl",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, verify, &opts);
}
