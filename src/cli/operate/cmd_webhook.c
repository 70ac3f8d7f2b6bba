// SPDX-License-Identifier: Apache-2.0
/* Where events of the project are sent to: added, listed with how it goes, removed. */
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

struct webhook_opts {
	const char *types, *url;
};

static int add(struct command *c, struct err *err)
{
	const struct webhook_opts *opts = c->arg;
	auto_free char *path = remote_path("webhooks");
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	(void)json_object_set_new(body, "url", json_string(c->words[0]));
	if (opts->types)
		(void)json_object_set_new(body, "types", json_string(opts->types));
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	printf("%s\n", command_text(reply, "secret"));
	(void)fflush(stdout);
	(void)fprintf(stderr,
	              "This is the only time that the secret is shown. The webhook's id is %s.\n",
	              command_text(json_object_get(reply, "webhook"), "id"));
	return 0;
}

static void add_number(struct table *t, const json_t *object, const char *name)
{
	auto_free char *text = json_dumps(json_object_get(object, name), JSON_ENCODE_ANY);

	table_add(t, text);
}

static void print_webhooks(const json_t *webhooks)
{
	static const char *const heads[] = {"ID",      "URL", "TYPES", "DELIVERED",
	                                    "DROPPED", "AGE", "ERROR"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	size_t i;
	const json_t *hook;

	json_array_foreach(webhooks, i, hook)
	{
		uint64_t created = command_number(hook, "created_us");
		const char *types = command_text(hook, "types");
		char age[16];

		text_age(now > created ? now - created : 0, age);
		table_add(&t, command_text(hook, "id"));
		table_add(&t, command_text(hook, "url"));
		table_add(&t, *types ? types : "all");
		add_number(&t, hook, "delivered");
		add_number(&t, hook, "dropped");
		table_add(&t, age);
		table_add(&t, command_text(hook, "last_error"));
	}
	table_print(&t);
	table_done(&t);
}

static int list(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("webhooks");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "webhooks"));
	else
		print_webhooks(json_object_get(reply, "webhooks"));
	return 0;
}

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
	r = remote_call(c->remote, "PATCH", path, body, &reply, err);
	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
}

static int remove_webhook(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("webhooks", c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
}

static const struct subcommand subcommands[] = {
	{"add", add, "[OPTIONS] URL",
         "Sends the project's events to a URL from now on, and prints the secret that signs them, "
         "this once.",
         "  cloche webhook add https://example.com/events\n"
         "  cloche webhook add --types sandbox.ended,exec.exited https://example.com/ends",
         .n_words = 1, .n_opts = 1},
	{"ls", list, "[OPTIONS]", "Lists the project's webhooks, and how it goes with each.",
         "  cloche webhook ls"},
	{"set", set, "[OPTIONS] WEBHOOK_ID",
         "Changes where a webhook goes or what it tells. Its secret stays.",
         "  cloche webhook set --url https://example.com/elsewhere wh_k3v9…\n"
         "  cloche webhook set --types all wh_k3v9…",
         .n_words = 1, .n_opts = 2},
	{"rm", remove_webhook, "[OPTIONS] WEBHOOK_ID",
         "Ends a webhook. Its id is in 'cloche webhook ls'.", "  cloche webhook rm wh_k3v9…",
         .n_words = 1},
};

static const struct group group = {
	.name = "webhook",
	.about = "Webhooks: the project's events, sent to a URL in their order, signed, until they "
		 "arrive.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_webhook(int argc, char **argv)
{
	struct webhook_opts opts = {0};
	const struct opt rows[] = {
		{0, "types", OPT_TEXT, &opts.types, "TYPES",
	         "only these, as sandbox.ended,exec.exited (default all)"},
		{0, "url", OPT_TEXT, &opts.url, "URL", "send to this one from now on"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
