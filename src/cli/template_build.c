// SPDX-License-Identifier: Apache-2.0
/*
 * A build is the daemon's: this only shows it. On a terminal there is one line that says how far it
 * is; elsewhere each step is a line. When the connection breaks, the build goes on, and we come
 * back for what we missed.
 */
#include "cli/cmd_template.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cli/lines.h"
#include "cli/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COME_BACK_US   UINT64_C(60000000) /* a daemon that restarts is back within seconds */
#define RETRY_MS       200
#define LINE_MAX_BYTES (1024 * 1024)
#define RECIPE_MAX     65537
#define BAR            24

struct follower {
	struct command *c;
	bool is_verbose, has_bar;
	uint64_t last_seq;
	json_t *build; /* as it ended; NULL until then */
};

static void wipe(struct follower *f)
{
	if (f->has_bar)
		(void)fputs("\r\x1b[K", stderr);
	f->has_bar = false;
}

static void show_bar(struct follower *f, const json_t *build)
{
	const json_t *p = json_object_get(build, "progress");
	double fraction = json_number_value(json_object_get(p, "fraction"));
	uint64_t left_ms = command_number(p, "left_ms"), total = command_number(p, "bytes_total");
	char bar[BAR + 1], bytes[40] = "", left[32] = "", of[16], done[16];

	if (!isatty(STDERR_FILENO) || !json_is_object(p))
		return;
	for (size_t i = 0; i < BAR; i++)
		bar[i] = (double)i < fraction * BAR ? '#' : '.';
	bar[BAR] = '\0';
	if (total > 0) {
		text_bytes(command_number(p, "bytes_done"), done);
		text_bytes(total, of);
		(void)snprintf(bytes, sizeof(bytes), ", %s of %s", done, of);
	}
	if (left_ms > 0)
		(void)snprintf(left, sizeof(left), ", %" PRIu64 " s left", left_ms / 1000 + 1);
	(void)fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %% %s%s%s", command_text(build, "name"), bar,
	              fraction * 100, command_text(p, "step"), bytes, left);
	(void)fflush(stderr);
	f->has_bar = true;
}

static void show_log(struct follower *f, const char *text)
{
	if (!f->is_verbose && strncmp(text, "== ", 3) != 0)
		return;
	wipe(f);
	(void)fputs(text, f->is_verbose ? stdout : stderr);
}

static int on_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct follower *f = arg;
	auto_json json_t *event = NULL;
	const char *type;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return r;
	type = command_text(event, "type");
	if (strcmp(type, "log") == 0) {
		f->last_seq = command_number(event, "seq");
		show_log(f, command_text(event, "text"));
	} else if (strcmp(type, "progress") == 0) {
		show_bar(f, json_object_get(event, "build"));
	} else if (strcmp(type, "ended") == 0) {
		f->build = json_incref(json_object_get(event, "build"));
		return 1;
	}
	return 0;
}

static int read_events(struct follower *f, const char *id, bool follow, struct err *err)
{
	char after[24];
	auto_free char *path = remote_path("builds", id, "events");
	int r;

	(void)snprintf(after, sizeof(after), "%" PRIu64, f->last_seq);
	path = remote_query(path, "after", after);
	if (follow)
		path = remote_query(path, "follow", "1");
	r = remote_begin(f->c->remote, "GET", path,
	                 &(struct remote_request){.accept = "application/x-ndjson"}, err);
	return r < 0 ? r : lines_read(f->c->remote, LINE_MAX_BYTES, on_line, f, err);
}

static int follow_build(struct follower *f, const char *id, struct err *err)
{
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
	uint64_t since_us = clock_steady_us();
	int r;

	for (;;) {
		uint64_t seq = f->last_seq;

		r = read_events(f, id, /* follow= */ true, err);
		if (r > 0 || (r < 0 && err->code == ERR_NOT_FOUND))
			break;
		if (f->last_seq > seq)
			since_us = clock_steady_us();
		if (clock_steady_us() - since_us > COME_BACK_US)
			return r < 0 ? r : err_set(err, ERR_UNAVAILABLE, 0, "the daemon is gone");
		(void)nanosleep(&pause, NULL);
	}
	wipe(f);
	return MIN(r, 0);
}

/* What has a slash or a file's end is a file, anything else a name. */
static int put_recipe(json_t *body, const char *word, struct err *err)
{
	size_t len = strlen(word);
	bool is_file = strchr(word, '/') || (len > 5 && strcmp(word + len - 5, ".toml") == 0);
	auto_free char *text = xcalloc(1, RECIPE_MAX);
	int r;

	if (!is_file)
		return json_object_set_new(body, "name", json_string(word));
	r = fd_read_file(AT_FDCWD, word, text, RECIPE_MAX);
	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, -r, "cannot read '%s'", word);
	if (json_object_set_new(body, "recipe", json_string(text)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not a text in UTF-8", word);
	return 0;
}

static int print_end(const struct command *c, const json_t *build, struct err *err)
{
	const json_t *error = json_object_get(build, "error");
	const char *state = command_text(build, "state");

	if (c->common.json)
		command_print_json(build);
	if (strcmp(state, "ready") == 0) {
		if (!c->common.json)
			printf("%s %s%s\n", command_text(build, "name"),
			       command_text(build, "digest"),
			       json_is_true(json_object_get(build, "cached")) ? " (as before)"
			                                                      : "");
		return 0;
	}
	(void)err_set(err, ERR_CONFLICT, 0, "%s was not built: %s", command_text(build, "name"),
	              json_is_object(error) ? command_text(error, "message") : "it was cancelled");
	return json_is_object(error) ? err_hint(err, "%s", command_text(error, "hint")) : -EINVAL;
}

int template_build(struct command *c, struct err *err)
{
	const struct template_build_opts *opts = &((const struct template_opts *)c->arg)->build;
	auto_free char *path = remote_path("builds");
	auto_json json_t *body = json_object(), *build = NULL;
	struct follower f = {.c = c, .is_verbose = opts->is_verbose};
	int r = put_recipe(body, c->words[0], err);

	if (opts->is_shared)
		(void)json_object_set_new(body, "shared", json_true());
	if (opts->is_fresh)
		(void)json_object_set_new(body, "fresh", json_true());
	if (r == 0)
		r = remote_call(c->remote, "POST", path, body, &build, err);
	if (r < 0)
		return r;
	if (opts->is_detached) {
		if (c->common.json)
			command_print_json(build);
		else
			printf("%s\n", command_text(build, "id"));
		return 0;
	}
	r = follow_build(&f, command_text(build, "id"), err);
	if (r == 0)
		r = print_end(c, f.build, err);
	json_decref(f.build);
	return r;
}

static void print_builds(const json_t *builds)
{
	static const char *const heads[] = {"ID", "NAME", "STATE", "AGE", "ERROR"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	size_t i;
	const json_t *b;

	json_array_foreach(builds, i, b)
	{
		uint64_t created = command_number(b, "created_us");
		char age[16];

		text_age(now > created ? now - created : 0, age);
		table_add(&t, command_text(b, "id"));
		table_add(&t, command_text(b, "name"));
		table_add(&t, command_text(b, "state"));
		table_add(&t, age);
		table_add(&t, command_text(json_object_get(b, "error"), "message"));
	}
	table_print(&t);
	table_done(&t);
}

int template_builds(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("builds");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "builds"));
	else
		print_builds(json_object_get(reply, "builds"));
	return 0;
}

int template_log(struct command *c, struct err *err)
{
	struct follower f = {.c = c, .is_verbose = true};
	int r = read_events(&f, c->words[0], /* follow= */ false, err);

	json_decref(f.build);
	return MIN(r, 0);
}

int template_cancel(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("builds", c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
}
