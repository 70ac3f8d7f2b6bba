// SPDX-License-Identifier: Apache-2.0
/*
 * Holds the event log's chain against its own hashes: of an export, without any daemon, or of a
 * daemon's whole log, both ends included.
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
	bool partial;
	const char *head;
};

struct check {
	bool is_partial;
	uint64_t n;
	struct chain_link first, last;
};

static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct check *check = arg;
	struct chain_link link;
	int r = chain_check_line(line, len, &link, err);

	if (r == 0 && check->n > 0 && !check->is_partial)
		r = chain_check_next(&check->last, &link, err);
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

/* What the daemon holds must begin behind its anchor and end in its head. */
static int check_ends(const struct check *check, const json_t *before, struct err *err)
{
	const json_t *anchor = json_object_get(before, "anchor");
	const json_t *head = json_object_get(before, "head");

	if (check->n > 0 && command_number(anchor, "seq") < check->first.seq &&
	    strcmp(command_text(anchor, "hash"), check->first.prev) != 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the log's beginning is missing: entry %" PRIu64
		               " does not follow the last one that was removed in order",
		               check->first.seq);
	if (command_number(head, "seq") > check->last.seq ||
	    (command_number(head, "seq") == check->last.seq && check->n > 0 &&
	     strcmp(command_text(head, "hash"), check->last.hash) != 0))
		return err_set(err, ERR_CONFLICT, 0,
		               "the log's end is missing after entry %" PRIu64, check->last.seq);
	return 0;
}

static int verify_remote(struct command *c, struct check *check, struct err *err)
{
	const struct remote_request request = {.accept = "application/x-ndjson"};
	auto_free char *head_path = remote_path("events", "head");
	auto_free char *path = remote_query(remote_path("events"), "all", "1");
	auto_json json_t *before = NULL;
	int r = remote_open(&c->common, &c->remote, err);

	if (r == 0)
		r = remote_call(c->remote, "GET", head_path, NULL, &before, err);
	if (r == 0)
		r = remote_begin(c->remote, "GET", path, &request, err);
	if (r == 0)
		r = lines_read(c->remote, LINE_MAX_BYTES, take_line, check, err);
	return r == 0 ? check_ends(check, before, err) : r;
}

static int verify(struct command *c, struct err *err)
{
	const struct verify_opts *opts = c->arg;
	struct check check = {.is_partial = opts->partial};
	int r = c->n_words > 0 ? verify_file(c->words[0], &check, err)
	                       : verify_remote(c, &check, err);

	if (r < 0)
		return r;
	if (opts->head && strcmp(opts->head, check.last.hash) != 0)
		return err_set(err, ERR_CONFLICT, 0, "the last entry's hash is %s",
		               check.last.hash);
	if (c->common.json)
		printf("{\"entries\":%" PRIu64 ",\"first_seq\":%" PRIu64 ",\"last_seq\":%" PRIu64
		       ",\"head\":\"%s\"}\n",
		       check.n, check.first.seq, check.last.seq, check.last.hash);
	else
		printf("%" PRIu64 " entries are as they were written (%" PRIu64 " to %" PRIu64
		       "), head %s\n",
		       check.n, check.first.seq, check.last.seq, check.last.hash);
	return 0;
}

int cmd_events_verify(int argc, char **argv)
{
	struct verify_opts opts = {0};
	const struct opt rows[] = {
		{0, "partial", OPT_FLAG, &opts.partial, NULL,
	         "entries are missing on purpose: check each by itself"},
		{0, "head", OPT_TEXT, &opts.head, "HASH", "what the last entry's hash must be"},
	};
	const struct manual manual = {
		.name = "events verify",
		.synopsis = "[OPTIONS] [FILE]",
		.about = "Checks that no entry of the event log was changed, removed or put in. "
			 "FILE is an "
			 "export\n('cloche events --all --json', - for stdin) and needs no daemon; "
			 "without it the daemon's whole\nlog is read, which needs an admin key. An "
			 "export "
			 "of one project or sandbox has gaps: --partial.",
		.examples = "  cloche events verify\n"
			    "  cloche events verify events.jsonl",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, verify, &opts);
}
