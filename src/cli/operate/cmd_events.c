// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's event log, as it is and as it grows. With -f a daemon that restarts is waited for,
 * and asked for what is behind the last number seen.
 */
#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/term/moment.h"
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
	const char *sandbox, *type, *node;
	const char *who, *address, *text, *since, *until;
	bool newest;
	uint64_t after, before, limit;
};

struct log_reader {
	struct command *c;
	char *since, *until; /* as the daemon reads them, or NULL */
	bool has_more;       /* the reply has ended before the log did */
	uint64_t left;       /* to print; where --limit is given */
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
	if (strcmp(command_text(event, "type"), "more") == 0) {
		const bool is_back = ((const struct events_opts *)reader->c->arg)->newest;

		reader->last = command_number(event, is_back ? "before" : "after");
		reader->has_more = true;
		return 0;
	}
	if (cursor_of(event) > 0) {
		reader->last = cursor_of(event);
		reader->left--;
	}
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

static char *add_number(char *path, const char *name, uint64_t value)
{
	auto_free char *text = xasprintf("%" PRIu64, value);

	return remote_query(path, name, text);
}

/* From where, which way, and how many. */
static char *add_place(const struct log_reader *reader, char *path)
{
	const struct events_opts *opts = reader->c->arg;

	if (!opts->newest) {
		path = add_number(path, "after", reader->last);
	} else {
		path = remote_query(path, "newest", "1");
		if (opts->after > 0)
			path = add_number(path, "after", opts->after);
		if (reader->last > 0)
			path = add_number(path, "before", reader->last);
	}
	return opts->limit > 0 ? add_number(path, "limit", reader->left) : path;
}

static int ask(struct log_reader *reader, struct err *err)
{
	const struct events_opts *opts = reader->c->arg;
	const struct remote_request request = {.accept = "application/x-ndjson"};
	const struct {
		const char *name, *value;
	} words[] = {
		{"sandbox_id", opts->sandbox}, {"type", opts->type}, {"who", opts->who},
		{"address", opts->address},    {"text", opts->text}, {"since", reader->since},
		{"until", reader->until},      {"node", opts->node},
	};
	char *path = add_place(reader, remote_path("events"));
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].value)
			path = remote_query(path, words[i].name, words[i].value);
	if (opts->follow)
		path = remote_query(path, "follow", "1");
	if (opts->all)
		path = remote_query(path, "all", "1");
	if (opts->audit)
		path = remote_query(path, "audit", "1");
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

/* What people write is told to the daemon as seconds; all else is the daemon's to judge. */
static char *time_word(const char *text)
{
	uint64_t at_us;

	if (!text || text[strspn(text, "0123456789.")] == '\0' ||
	    moment_parse(text, clock_wall_us(), &at_us) < 0)
		return text ? xstrdup(text) : NULL;
	return xasprintf("%" PRIu64 ".%06" PRIu64, at_us / 1000000, at_us % 1000000);
}

static int read_all(struct log_reader *reader, struct err *err)
{
	const struct events_opts *opts = reader->c->arg;
	int r = ask(reader, err);

	while (r == 0) {
		reader->has_more = false;
		r = lines_read(reader->c->remote, LINE_MAX_BYTES, take_line, reader, err);
		if (r != 0 || reader->left == 0 || (!opts->follow && !reader->has_more))
			return r;
		r = opts->follow ? ask_again(reader, err) : ask(reader, err);
	}
	return r;
}

static int events(struct command *c, struct err *err)
{
	const struct events_opts *opts = c->arg;
	struct log_reader reader = {.c = c,
	                            .last = opts->newest ? opts->before : opts->after,
	                            .left = opts->limit > 0 ? opts->limit : UINT64_MAX};
	int r;

	if (opts->before > 0 && !opts->newest)
		return err_set(err, ERR_INVALID_FIELD, 0, "--before goes with --newest");
	reader.since = time_word(opts->since);
	reader.until = time_word(opts->until);
	r = read_all(&reader, err);
	free(reader.since);
	free(reader.until);
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
		{0, "who", OPT_TEXT, &opts.who, "WHO",
	         "only what this key (id or name) or person (email, name or subject) asked for"},
		{0, "address", OPT_TEXT, &opts.address, "ADDRESS",
	         "only from this address, or range such as 10.0.0.0/8"},
		{0, "text", OPT_TEXT, &opts.text, "TEXT",
	         "only with this text in the type, an id, the agent or the facts, such as a path"},
		{0, "since", OPT_TEXT, &opts.since, "TIME",
	         "only from this time on: 2026-01-31T09:30:00Z, 14:00, or how long ago, such as "
	         "2h"},
		{0, "until", OPT_TEXT, &opts.until, "TIME", "only before this time"},
		{0, "newest", OPT_FLAG, &opts.newest, NULL, "the newest first"},
		{0, "after", OPT_NUMBER, &opts.after, "SEQ", "only entries after this number"},
		{0, "before", OPT_NUMBER, &opts.before, "SEQ",
	         "with --newest: only entries before this number"},
		{0, "limit", OPT_NUMBER, &opts.limit, "N", "at most this many entries"},
		{0, "node", OPT_TEXT, &opts.node, "NODE",
	         "the log of this node of a cluster (without it, of the one that is asked)"},
		{0, "audit", OPT_FLAG, &opts.audit, NULL,
	         "the audit log: reads of content, and writes that are no events"},
		{'a', "all", OPT_FLAG, &opts.all, NULL,
	         "entries of all projects and of the daemon, in one order (needs an admin key of "
	         "the project default)"},
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
			    "  cloche events --audit --newest --who bob@example.org --text /etc/\n"
			    "  cloche events --all --json > events.jsonl && cloche events verify "
			    "events.jsonl",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	if (argc > 1 && strcmp(argv[1], "verify") == 0)
		return cmd_events_verify(argc - 1, argv + 1);
	return command_main(&manual, argc, argv, events, &opts);
}
