// SPDX-License-Identifier: Apache-2.0
/* Where events of the project are sent to: added, listed with how it goes, removed. */
#include "cli/frame/group.h"

#include <string.h>

struct webhook_opts {
	const char *types, *secret, *url;
};

static void put_secret(json_t *body, const struct webhook_opts *opts)
{
	if (opts->secret)
		(void)json_object_set_new(body, "secret",
		                          json_sprintf("secret://%s", opts->secret));
}

static int add(struct command *c, struct err *err)
{
	const struct webhook_opts *opts = c->arg;
	auto_json json_t *body = json_object();

	(void)json_object_set_new(body, "url", json_string(c->words[0]));
	if (opts->types)
		(void)json_object_set_new(body, "types", json_string(opts->types));
	put_secret(body, opts);
	return resource_create_secret(c, body, "webhook", err);
}

static char *cell_types(const json_t *hook, const char *field)
{
	const char *types = command_text(hook, field);

	return xstrdup(*types ? types : "all");
}

static const struct column columns[] = {
	{"ID", "id"},
	{"URL", "url"},
	{"TYPES", "types", cell_types},
	{"DELIVERED", "delivered", cell_number},
	{"DROPPED", "dropped", cell_number},
	{"AGE", "created_us", cell_age},
	{"ERROR", "last_error"},
};
static const struct resource webhooks = {
	.plural = "webhooks", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

static int set(struct command *c, struct err *err)
{
	const struct webhook_opts *opts = c->arg;
	auto_free char *path = remote_path("webhooks", c->words[0]);
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	if (opts->url)
		(void)json_object_set_new(body, "url", json_string(opts->url));
	if (opts->types)
		(void)json_object_set_new(
			body, "types", json_string(strcmp(opts->types, "all") ? opts->types : ""));
	put_secret(body, opts);
	r = remote_call(c->remote, "PATCH", path, body, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, NULL);
	return r;
}

static const struct subcommand subcommands[] = {
	{"add", add, "[OPTIONS] URL",
         "Sends the project's events to a URL from now on, and prints the secret that signs them, "
         "only this once.\n"
         "With --secret they are signed with a secret that the project keeps ('cloche secret').",
         "  cloche webhook add https://example.com/events\n"
         "  cloche webhook add --types sandbox.ended,exec.exited https://example.com/ends\n"
         "  echo whsec_$(openssl rand -base64 32) | cloche secret set HOOK\n"
         "  cloche webhook add --secret HOOK https://example.com/events",
         .n_words = 1, .n_opts = 2, .resource = &webhooks},
	{"ls", resource_ls, "[OPTIONS]",
         "Lists the project's webhooks, with what each has delivered.", "  cloche webhook ls",
         .resource = &webhooks},
	{"set", set, "[OPTIONS] WEBHOOK_ID",
         "Changes the URL, the types or the secret of a webhook. What is not named stays the same.",
         "  cloche webhook set --url https://example.com/elsewhere wh_k3v9…\n"
         "  cloche webhook set --types all wh_k3v9…\n"
         "  cloche webhook set --secret HOOK wh_k3v9…",
         .n_words = 1, .n_opts = 3},
	{"rm", resource_rm, "[OPTIONS] WEBHOOK_ID",
         "Ends a webhook. Its id is in 'cloche webhook ls'.", "  cloche webhook rm wh_k3v9…",
         .n_words = 1, .resource = &webhooks},
};

static const struct group group = {
	.name = "webhook",
	.about = "Webhooks: the project's events, signed and sent to a URL in order, until they "
		 "arrive.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_webhook(int argc, char **argv)
{
	struct webhook_opts opts = {0};
	const struct opt rows[] = {
		{0, "types", OPT_TEXT, &opts.types, "TYPES",
	         "only these types, such as sandbox.ended,exec.exited (default all)"},
		{0, "secret", OPT_TEXT, &opts.secret, "NAME",
	         "sign with this secret of the project; its value is whsec_ and the base64 of 24 "
	         "to "
	         "64 bytes"},
		{0, "url", OPT_TEXT, &opts.url, "URL", "send to this URL from now on"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
