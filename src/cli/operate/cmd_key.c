// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/term/text.h"

#include <stdio.h>

struct key_opts {
	const char *scope, *project;
};

static char *keys_path(const struct key_opts *opts, const char *id)
{
	char *path = id ? remote_path("keys", id) : remote_path("keys");

	return opts->project ? remote_query(path, "project", opts->project) : path;
}

static int create(struct command *c, struct err *err)
{
	const struct key_opts *opts = c->arg;
	auto_free char *path = remote_path("keys");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	(void)json_object_set_new(body, "name", json_string(c->words[0]));
	if (opts->scope)
		(void)json_object_set_new(body, "scope", json_string(opts->scope));
	if (opts->project)
		(void)json_object_set_new(body, "project", json_string(opts->project));
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	printf("%s\n", command_text(reply, "secret"));
	(void)fflush(stdout);
	(void)fprintf(stderr, "This is the only time that the key is shown. Its id is %s.\n",
	              command_text(json_object_get(reply, "key"), "id"));
	return 0;
}

static void print_keys(const json_t *keys)
{
	static const char *const heads[] = {"ID", "NAME", "SCOPE", "STATE", "AGE"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	size_t i;
	const json_t *k;

	json_array_foreach(keys, i, k)
	{
		uint64_t created = command_number(k, "created_us");
		char age[16];

		text_age(now > created ? now - created : 0, age);
		table_add(&t, command_text(k, "id"));
		table_add(&t, command_text(k, "name"));
		table_add(&t, command_text(k, "scope"));
		table_add(&t, command_number(k, "revoked_us") ? "revoked" : "good");
		table_add(&t, age);
	}
	table_print(&t);
	table_done(&t);
}

static int list(struct command *c, struct err *err)
{
	auto_free char *path = keys_path(c->arg, NULL);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "keys"));
	else
		print_keys(json_object_get(reply, "keys"));
	return 0;
}

static int revoke_key(struct command *c, struct err *err)
{
	auto_free char *path = keys_path(c->arg, c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	return 0;
}

static const struct subcommand subcommands[] = {
	{"create", create, "[OPTIONS] NAME",
         "Makes an API key and prints it, this once. The daemon keeps only its hash.",
         "  cloche key create ci\n"
         "  export CLOCHE_API_KEY=$(cloche key create --scope read dashboard)",
         .n_words = 1, .n_opts = 2},
	{"ls", list, "[OPTIONS]", "Lists the project's keys, without their secrets.",
         "  cloche key ls", .n_opts = 1},
	{"revoke", revoke_key, "[OPTIONS] KEY_ID",
         "Makes a key worthless, at once. Its id is in 'cloche key ls'.",
         "  cloche key revoke key_k3v9…", .n_words = 1, .n_opts = 1},
};

static const struct group group = {
	.name = "key",
	.about = "API keys: who may call the daemon, and how far. Scopes: read, write, admin.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_key(int argc, char **argv)
{
	struct key_opts opts = {0};
	const struct opt rows[] = {
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "another project, for admins of the project default"},
		{0, "scope", OPT_TEXT, &opts.scope, "SCOPE",
	         "read, write or admin (default write); of a new key"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
