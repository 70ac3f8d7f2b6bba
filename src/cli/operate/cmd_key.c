// SPDX-License-Identifier: Apache-2.0
/* API keys: made, listed, revoked. */
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/term/text.h"

struct key_opts {
	uint64_t expires_in_ms;
	const char *scope, *project;
};

static int create(struct command *c, struct err *err)
{
	const struct key_opts *opts = c->arg;
	auto_json json_t *body = json_object();

	(void)json_object_set_new(body, "name", json_string(c->words[0]));
	if (opts->scope)
		(void)json_object_set_new(body, "scope", json_string(opts->scope));
	if (opts->project)
		(void)json_object_set_new(body, "project", json_string(opts->project));
	if (opts->expires_in_ms)
		(void)json_object_set_new(body, "expires_in_ms",
		                          json_integer((json_int_t)opts->expires_in_ms));
	return resource_create_secret(c, body, "key", err);
}

static char *add_project(char *path, const void *arg)
{
	const struct key_opts *opts = arg;

	return opts->project ? remote_query(path, "project", opts->project) : path;
}

static char *cell_state(const json_t *key, const char *field)
{
	uint64_t expires_us = command_number(key, field), now = clock_wall_us();
	char left[16];

	if (expires_us == 0)
		return xstrdup("good");
	if (expires_us <= now)
		return xstrdup("expired");
	text_age(expires_us - now, left);
	return xasprintf("ends in %s", left);
}

static char *cell_used(const json_t *key, const char *field)
{
	return json_object_get(key, field) ? cell_age(key, field) : xstrdup("never");
}

static const struct column columns[] = {
	{"ID", "id"},
	{"NAME", "name"},
	{"SCOPE", "scope"},
	{"STATE", "expires_us", cell_state},
	{"USED", "used_us", cell_used},
	{"AGE", "created_us", cell_age},
};
static const struct resource keys = {.plural = "keys",
                                     .columns = columns,
                                     .n_columns = ARRAY_SIZE(columns),
                                     .query = add_project};

static const struct subcommand subcommands[] = {
	{"create", create, "[OPTIONS] NAME",
         "Makes an API key and prints it, only this once. The daemon keeps only its hash.",
         "  cloche key create ci\n"
         "  cloche key create --expires-in 30d contractor\n"
         "  export CLOCHE_API_KEY=$(cloche key create --scope read dashboard)",
         .n_words = 1, .n_opts = 3, .resource = &keys},
	{"ls", resource_ls, "[OPTIONS]", "Lists the project's keys, without their secrets.",
         "  cloche key ls", .n_opts = 1, .resource = &keys},
	{"revoke", resource_rm, "[OPTIONS] KEY_ID",
         "Revokes a key at once, and ends what is open with it. Its id is in 'cloche key ls'.",
         "  cloche key revoke key_k3v9…", .n_words = 1, .n_opts = 1, .resource = &keys},
};

static const struct group group = {
	.name = "key",
	.about = "API keys: who may call the daemon, and for what. Scopes: read, write, admin.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_key(int argc, char **argv)
{
	struct key_opts opts = {0};
	const struct opt rows[] = {
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "of another project; only for admins of the project default"},
		{0, "scope", OPT_TEXT, &opts.scope, "SCOPE",
	         "read, write or admin (default write)"},
		{0, "expires-in", OPT_MS, &opts.expires_in_ms, "TIME",
	         "revoke the key after this long, such as 12h or 30d (default: never)"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
