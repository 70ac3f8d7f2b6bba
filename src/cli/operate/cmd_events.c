// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's event log, as it is and as it grows. With -f a daemon that restarts is waited for,
 * and asked for what is behind the last number seen.
 */
#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COME_BACK_US   UINT64_C(30000000) /* a daemon that restarts is back within seconds */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS  1000
#define ROW_MAX        65536
#define LINE_MAX_BYTES 65536

struct events_opts {
	bool follow, all, audit;
	const char *sandbox, *type;
	uint64_t after;
};

struct log_reader {
	struct command *c;
	uint64_t last; /* the number of the last entry; its place, where those of all projects are
	                  read */
};

/* What `after` goes by. */
static uint64_t cursor_of(const json_t *event)
{
	return command_number(event, json_object_get(event, "place") ? "place" : "seq");
}

/* " name=value" for each fact; values that are no text as JSON. */
static int put_facts(struct buf *row, const json_t *data)
{
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach (unconst(data), name, value) {
		auto_free char *text = json_is_string(value)
		                               ? xstrdup(json_string_value(value))
		                               : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

		if (r == 0)
			r = buf_printf(row, " %s=", name);
		if (r == 0 && text)
			text_escape(row, text, strlen(text));
	}
	return r;
}

static int print_row(const json_t *event, struct err *err)
{
	static const char *const ids[] = {"sandbox_id", "exec_id"};
	auto_call(buf_done) struct buf row = BUF_INIT(ROW_MAX);
	uint64_t at_us = command_number(event, "at_us");
	time_t seconds = (time_t)(at_us / 1000000);
	struct tm tm = {0};
	char when[40];
	int r;

	(void)localtime_r(&seconds, &tm);
	(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	r = buf_printf(&row, "%" PRIu64 " %s.%03u ", cursor_of(event), when,
	               (unsigned)(at_us / 1000 % 1000));
	text_escape(&row, command_text(event, "type"), strlen(command_text(event, "type")));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ids); i++) {
		const char *id = command_text(event, ids[i]);

		r = *id ? buf_append(&row, " ", 1) : 0;
		text_escape(&row, id, strlen(id));
	}
	if (r == 0)
		r = put_facts(&row, json_object_get(event, "data"));
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "an event is too long");
	printf("%s\n", buf_str(&row));
	return 0;
}

static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct log_reader *reader = arg;
	auto_json json_t *event = NULL;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return err_prefix(err, "an event");
	if (cursor_of(event) > 0)
		reader->last = cursor_of(event);
	if (strcmp(command_text(event, "type"), "gap") == 0 && !reader->c->common.json)
		(void)fprintf(stderr, "cloche: %sevents up to %" PRIu64 " are no longer kept\n",
		              ((const struct events_opts *)reader->c->arg)->all ? "some " : "",
		              command_number(event, "upto"));
	else if (reader->c->common.json)
		printf("%.*s\n", (int)len, line); /* as it came: its hash is over these bytes */
	else
		r = print_row(event, err);
	return r < 0 ? r : fflush(stdout) == 0 ? 0 : EXIT_SIGNAL + SIGPIPE;
}

static int ask(struct log_reader *reader, struct err *err)
{
	const struct events_opts *opts = reader->c->arg;
	const struct remote_request request = {.accept = "application/x-ndjson"};
	auto_free char *after = xasprintf("%" PRIu64, reader->last);
	char *path = remote_query(remote_path("events"), "after", after);
	int r;

	if (opts->follow)
		path = remote_query(path, "follow", "1");
	if (opts->all)
		path = remote_query(path, "all", "1");
	if (opts->audit)
		path = remote_query(path, "audit", "1");
	if (opts->sandbox)
		path = remote_query(path, "sandbox_id", opts->sandbox);
	if (opts->type)
		path = remote_query(path, "type", opts->type);
	r = remote_begin(reader->c->remote, "GET", path, &request, err);
	free(path);
	return r;
}

static int ask_again(struct log_reader *reader, struct err *err)
{
	uint64_t deadline_us = clock_steady_us() + COME_BACK_US;
	long wait_ms = RETRY_FIRST_MS;

	for (;;) {
		int r = ask(reader, err);
		struct timespec pause = {wait_ms / 1000, wait_ms % 1000 * 1000000};
		bool may_pass = err->code == ERR_UNAVAILABLE || err->errnum != 0;

		if (r == 0 || !may_pass || clock_steady_us() >= deadline_us)
			return r;
		(void)nanosleep(&pause, NULL);
		wait_ms = MIN(2 * wait_ms, RETRY_MOST_MS);
	}
}

static int events(struct command *c, struct err *err)
{
	const struct events_opts *opts = c->arg;
	struct log_reader reader = {.c = c, .last = opts->after};
	int r = ask(&reader, err);

	while (r == 0) {
		r = lines_read(c->remote, LINE_MAX_BYTES, take_line, &reader, err);
		if (r != 0 || !opts->follow)
			return r;
		r = ask_again(&reader, err);
	}
	return r;
}

int cmd_events(int argc, char **argv)
{
	struct events_opts opts = {0};
	const struct opt rows[] = {
		{'f', "follow", OPT_FLAG, &opts.follow, NULL,
	         "go on with new entries as they come"},
		{0, "sandbox", OPT_TEXT, &opts.sandbox, "SANDBOX",
	         "only of this sandbox; one that is gone is named by its id"},
		{0, "type", OPT_TEXT, &opts.type, "TYPES",
	         "only these types, such as exec.exited, or sandbox,key"},
		{0, "after", OPT_NUMBER, &opts.after, "SEQ", "only entries after this number"},
		{0, "audit", OPT_FLAG, &opts.audit, NULL,
	         "the audit log: reads of content, and writes that are no events"},
		{'a', "all", OPT_FLAG, &opts.all, NULL,
	         "entries of all projects and of the daemon, by their place in the order of all "
	         "(needs an admin key)"},
	};
	const struct manual manual = {
		.name = "events",
		.synopsis = "[OPTIONS]\nverify [OPTIONS] [FILE]",
		.about = "Prints what happened to sandboxes, execs, contexts and keys, why, and "
			 "who asked for it. With -f it goes\n"
			 "on, even if the daemon restarts meanwhile. With --json it prints the "
			 "lines of the log as they were\n"
			 "hashed: 'cloche events verify' can check them.",
		.examples = "  cloche events -f --type sandbox\n"
			    "  cloche events --sandbox build --type exec.exited\n"
			    "  cloche events --all --json > events.jsonl && cloche events verify "
			    "events.jsonl",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	if (argc > 1 && strcmp(argv[1], "verify") == 0)
		return cmd_events_verify(argc - 1, argv + 1);
	return command_main(&manual, argc, argv, events, &opts);
}
