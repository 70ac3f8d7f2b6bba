// SPDX-License-Identifier: Apache-2.0
#include "cli/template/cmd_template.h"

#include "base/fd.h"
#include "cli/session/build_follow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECIPE_MAX 65537

/* What has a slash or a file's end is a file, anything else a name. */
static int put_recipe(json_t *body, const char *word, struct err *err)
{
	size_t len = strlen(word);
	const char *slash = strrchr(word, '/');
	bool is_dockerfile = strcmp(slash ? slash + 1 : word, "Dockerfile") == 0;
	bool is_file = slash || (len > 5 && strcmp(word + len - 5, ".toml") == 0);
	auto_free char *text = xcalloc(1, RECIPE_MAX);
	struct stat st;
	int r;

	if (stat(word, &st) == 0 &&
	    (S_ISDIR(st.st_mode) ? is_file || *word == '.' : is_dockerfile)) {
		(void)err_set(err, ERR_INVALID_FIELD, 0, "'%s' is no recipe", word);
		return err_hint(err,
		                "a Dockerfile is built by: cloche template build --dockerfile %s",
		                word);
	}
	if (!is_file)
		return json_object_set_new(body, "name", json_string(word));
	r = fd_read_file(AT_FDCWD, word, text, RECIPE_MAX);
	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, -r, "cannot read '%s'", word);
	if (json_object_set_new(body, "recipe", json_string(text)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not a text in UTF-8", word);
	return 0;
}

static void print_end(const struct command *c, const json_t *build)
{
	if (c->common.json)
		command_print_json(build);
	else if (strcmp(command_text(build, "state"), "ready") == 0)
		printf("%s %s%s\n", command_text(build, "name"), command_text(build, "digest"),
		       json_is_true(json_object_get(build, "cached")) ? " (as before)" : "");
}

int template_build(struct command *c, struct err *err)
{
	const struct template_build_opts *opts = &((const struct template_opts *)c->arg)->build;
	auto_free char *path = remote_path("builds");
	auto_json json_t *body = json_object(), *build = NULL;
	struct build_follow f = {.remote = c->remote, .is_verbose = opts->is_verbose};
	const char *word = c->n_words > 0 ? c->words[0] : NULL;
	int r;

	if (opts->docker.path)
		r = template_put_dockerfile(c, &opts->docker, word, body, err);
	else if (opts->docker.name || opts->docker.target || opts->docker.args.n > 0)
		r = err_set(err, ERR_INVALID_FIELD, 0,
		            "--name, --target and --build-arg are for --dockerfile");
	else
		r = word ? put_recipe(body, word, err)
		         : err_set(err, ERR_INVALID_FIELD, 0,
		                   "it needs the name or file of a recipe, or --dockerfile");

	if (opts->is_shared)
		(void)json_object_set_new(body, "shared", json_true());
	if (opts->is_fresh)
		(void)json_object_set_new(body, "fresh", json_true());
	if (opts->retries > 0)
		(void)json_object_set_new(body, "retries", json_integer((json_int_t)opts->retries));
	if (r == 0)
		r = remote_call(c->remote, "POST", path, body, &build, err);
	if (r < 0)
		return r;
	if (opts->is_detached) {
		command_print_reply(c, build, "id");
		return 0;
	}
	r = build_follow_to_end(&f, command_text(build, "id"), err);
	if (r == 0) {
		print_end(c, f.build);
		r = build_follow_error(f.build, err);
	}
	json_decref(f.build);
	return r;
}

static char *cell_state(const json_t *build, const char *field)
{
	const char *state = command_text(build, field);
	uint64_t tries = command_number(build, "tries");
	auto_free char *progress = build_is_going(build) ? build_progress(build) : NULL;
	const bool is_told = progress && strcmp(progress, state) != 0;
	char try[32] = "";

	if (tries > 1)
		(void)snprintf(try, sizeof(try), ", try %" PRIu64, tries);
	return xasprintf("%s%s%s%s", state, try, is_told ? ", " : "", is_told ? progress : "");
}

static char *cell_error(const json_t *build, const char *field)
{
	return cell_text(json_object_get(build, field), "message");
}

static const struct column columns[] = {
	{"ID", "id"},
	{"NAME", "name"},
	{"STATE", "state", cell_state},
	{"AGE", "created_us", cell_age},
	{"ERROR", "error", cell_error},
};
const struct resource build_resource = {
	.plural = "builds", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

int template_log(struct command *c, struct err *err)
{
	struct build_follow f = {.remote = c->remote, .is_verbose = true};
	int r = build_follow_read(&f, c->words[0], /* is_following= */ false, err);

	json_decref(f.build);
	return MIN(r, 0);
}
