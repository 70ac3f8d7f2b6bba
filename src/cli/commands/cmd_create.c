// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "cli/session/fresh.h"
#include "cli/session/packages.h"
#include "cli/session/source.h"
#include "cli/session/spec.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)1024 * 1024)

struct create {
	uint64_t count; /* 0: one, which is told by itself */
	struct sandbox_opts sandbox;
	struct life_opts life;
	struct source_opts source;
};

/* The batch waits for room: told to who sits at a terminal, who else sees nothing happen. */
static void tell_queued(const json_t *event)
{
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr,
		              "cloche: sandbox %" PRIu64 " waits for room (%s), number %" PRIu64
		              " of %" PRIu64 "\n",
		              command_number(event, "index"), command_text(event, "why"),
		              command_number(event, "position"), command_number(event, "waiting"));
}

/* Prints the id of each as it becomes ready; what fails is told when all others are there. */
static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct command *c = arg;
	auto_json json_t *event = NULL;
	int r = len > 0 ? json_parse(line, len, &event, err) : 0;
	const char *type = command_text(event, "type");
	const json_t *error = json_object_get(event, "error");

	if (r < 0)
		return err_prefix(err, "a line of the batch");
	if (c->common.json && len > 0)
		printf("%.*s\n", (int)len, line);
	else if (strcmp(type, "sandbox") == 0)
		printf("%s\n", command_text(json_object_get(event, "sandbox"), "id"));
	else if (strcmp(type, "queued") == 0)
		tell_queued(event);
	else if (strcmp(type, "failed") == 0)
		(void)fprintf(stderr, "cloche: sandbox %" PRIu64 ": %s\n",
		              command_number(event, "index"), command_text(error, "message"));
	if (strcmp(type, "ended") == 0 && command_number(event, "failed") > 0)
		return err_set(err, ERR_CAPACITY, 0,
		               "%" PRIu64 " of %" PRIu64 " sandboxes of batch %s could not be made",
		               command_number(event, "failed"), command_number(event, "count"),
		               command_text(event, "batch_id"));
	return fflush(stdout) == 0 ? 0 : EXIT_SIGNAL + SIGPIPE;
}

static int create_many(struct command *c, uint64_t count, json_t *body, struct err *err)
{
	const struct remote_request request = {.accept = "application/x-ndjson", .body = body};
	int r;

	(void)json_object_set_new(body, "count", json_integer((json_int_t)count));
	r = remote_begin(c->remote, "POST", "/v1/sandboxes:batch", &request, err);
	return r < 0 ? r : lines_read(c->remote, LINE_MAX_BYTES, take_line, c, err);
}

static int create(struct command *c, struct err *err)
{
	const struct create *opts = c->arg;
	auto_free char *path = remote_path("sandboxes");
	auto_json json_t *body = NULL, *reply = NULL;
	int r = sandbox_opts_to_json(&opts->sandbox, opts->life.timeout_ms, &body, err);

	if (r < 0)
		return r;
	life_opts_to_json(&opts->life, body);
	r = source_opts_to_json(&opts->source, body, err);
	if (r == 0 && !opts->life.is_get)
		r = packages_prepare(c->remote, body, err);
	if (r < 0)
		return r;
	remote_note(c->remote, fresh_note(&opts->sandbox));
	if (opts->sandbox.wait_ms > 0)
		remote_note_queue(c->remote);
	if (opts->count > 0)
		return create_many(c, opts->count, body, err);
	r = command_ask(c, "POST", path, body, &reply, err);
	if (r == 0)
		printf("%s\n", command_text(reply, "id"));
	return MIN(r, 0);
}

int cmd_create(int argc, char **argv)
{
	struct create opts = {0};
	const struct opt rows[] = {
		{0, "count", OPT_NUMBER, &opts.count, "N",
	         "create N of them as a batch, and print each id as soon as it runs; rm --tag "
	         "batch=ID removes all"},
		SANDBOX_OPT_ROWS(opts.sandbox),
		LIFE_OPT_ROWS(opts.life),
		SOURCE_OPT_ROWS(opts.source),
		RESULT_OPT_ROW(opts.sandbox.results),
	};
	const struct manual manual = {
		.name = "create",
		.synopsis = "[OPTIONS]",
		.about = "Creates a sandbox that stays until it is removed or its time is up, and "
			 "prints its id.\nA sandbox has no network unless --allow or --network "
			 "says what it may reach.",
		.examples = "  id=$(cloche create --memory 1g --timeout 2h)\n"
			    "  cloche create --name build --tag team=blue\n"
			    "  cloche exec build uname -a\n"
			    "  cloche create --allow api.example.com --allow '*.example.org'\n"
			    "  cloche create --template python --package pandas --package apt:jq\n"
			    "  cloche create --git https://git.example.com/team/app.git --depth 1\n"
			    "  cloche create --count 64 --wait 10m --timeout 15m\n"
			    "  cloche create --result score.json --timeout 10m\n"
			    "  cloche create --get-or-create --name agent --persistent "
			    "--idle-timeout 10m",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main(&manual, argc, argv, create, &opts);

	sandbox_opts_done(&opts.sandbox);
	return status;
}
