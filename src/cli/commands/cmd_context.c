// SPDX-License-Identifier: Apache-2.0
/* context: the named interpreters of a sandbox. */
#include "cli/frame/group.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>

struct context_opts {
	const char *language, *cwd, *user;
	struct opt_list env;
};

static void print_contexts(const json_t *contexts)
{
	static const char *const heads[] = {"NAME", "LANGUAGE", "STATE", "CALLS", "ID"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	const json_t *c;
	size_t i;

	json_array_foreach(contexts, i, c)
	{
		auto_free char *count = xasprintf("%" PRIu64, command_number(c, "count"));

		table_add(&t, command_text(c, "name"));
		table_add(&t, command_text(c, "language"));
		table_add(&t, command_text(c, "state"));
		table_add(&t, count);
		table_add(&t, command_text(c, "id"));
	}
	table_print(&t);
	table_done(&t);
}

static int list(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "contexts");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "contexts"));
	else
		print_contexts(json_object_get(reply, "contexts"));
	return 0;
}

static void print_one(const struct command *c, const json_t *context)
{
	auto_free char *name = text_escaped(command_text(context, "name"));

	if (c->common.json)
		command_print_json(context);
	else
		printf("%s\n", name);
}

static void put_text(json_t *body, const char *name, const char *value)
{
	if (value)
		(void)json_object_set_new(body, name, json_string(value));
}

static int create(struct command *c, struct err *err)
{
	const struct context_opts *opts = c->arg;
	auto_free char *path = remote_path("sandboxes", c->words[0], "contexts");
	auto_json json_t *body = json_object(), *reply = NULL;
	json_t *env = NULL;
	int r = env_to_json(&opts->env, &env, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", env);
	put_text(body, "name", c->words[1]);
	put_text(body, "language", opts->language);
	put_text(body, "cwd", opts->cwd);
	put_text(body, "user", opts->user);
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r == 0)
		print_one(c, reply);
	return r;
}

/* Acts on a context: its path with a verb behind it, or its own. */
static int act(struct command *c, const char *method, const char *verb, struct err *err)
{
	auto_free char *path =
		verb ? remote_path("sandboxes", c->words[0], "contexts", c->words[1], verb)
		     : remote_path("sandboxes", c->words[0], "contexts", c->words[1]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, method, path, NULL, &reply, err);

	if (r == 0)
		print_one(c, reply);
	return r;
}

static int restart(struct command *c, struct err *err)
{
	return act(c, "POST", "restart", err);
}

static int interrupt(struct command *c, struct err *err)
{
	return act(c, "POST", "interrupt", err);
}

static int remove_context(struct command *c, struct err *err)
{
	return act(c, "DELETE", NULL, err);
}

#define NEW_OPTS 4

static const struct subcommand subcommands[] = {
	{"ls", list, "[OPTIONS] SANDBOX",
         "Lists the contexts of a sandbox, with their state and how many calls they ran.",
         "  cloche context ls box", .n_words = 1},
	{"new", create, "[OPTIONS] SANDBOX NAME",
         "Makes a context: an interpreter with variables of its own.",
         "  cloche context new box analysis\n"
         "  cloche context new -l javascript --cwd /tmp -e DEBUG=1 box js",
         .n_words = 2, .n_opts = NEW_OPTS},
	{"interrupt", interrupt, "[OPTIONS] SANDBOX CONTEXT",
         "Interrupts what runs in it; the variables stay.", "  cloche context interrupt box python",
         .n_words = 2},
	{"restart", restart, "[OPTIONS] SANDBOX CONTEXT",
         "Gives it a fresh interpreter; the variables are gone.",
         "  cloche context restart box python", .n_words = 2},
	{"rm", remove_context, "[OPTIONS] SANDBOX CONTEXT", "Ends its interpreter and forgets it.",
         "  cloche context rm box analysis", .n_words = 2},
};

static const struct group group = {
	.name = "context",
	.about = "Contexts: named interpreters of a sandbox, whose variables last from call to "
		 "call. Each language has\na default one with the language's name, made on first "
		 "use.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_context(int argc, char **argv)
{
	struct context_opts opts = {0};
	/* clang-format off */
	const struct opt rows[NEW_OPTS] = {
		{'l', "language", OPT_TEXT, &opts.language, "LANG", "python (default), javascript, typescript or bash"},
		{'w', "cwd",      OPT_TEXT, &opts.cwd,      "DIR",  "in this directory (default the user's home)"},
		{'u', "user",     OPT_TEXT, &opts.user,     "NAME", "as this user of the sandbox (default user)"},
		{'e', "env",      OPT_LIST, &opts.env,      "K=V",  "environment; a bare K takes yours; may be repeated"},
	};
	/* clang-format on */
	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.env);
	return status;
}
