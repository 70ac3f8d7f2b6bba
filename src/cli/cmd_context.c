// SPDX-License-Identifier: Apache-2.0
/* context: the named interpreters of a sandbox. */
#include "cli/command.h"
#include "cli/spec.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static const struct {
	const char *word;
	command_fn fn;
	const char *name, *synopsis, *about, *examples;
	size_t n_words;
} subcommands[] = {
	{"ls", list, "context ls", "[OPTIONS] SANDBOX",
         "Lists the contexts of a sandbox, with their state and how many calls they ran.",
         "  cloche context ls box", 1},
	{"new", create, "context new", "[OPTIONS] SANDBOX NAME",
         "Makes a context: an interpreter with variables of its own.",
         "  cloche context new box analysis\n"
         "  cloche context new -l javascript --cwd /tmp -e DEBUG=1 box js",
         2},
	{"interrupt", interrupt, "context interrupt", "[OPTIONS] SANDBOX CONTEXT",
         "Interrupts what runs in it; the variables stay.", "  cloche context interrupt box python",
         2},
	{"restart", restart, "context restart", "[OPTIONS] SANDBOX CONTEXT",
         "Gives it a fresh interpreter; the variables are gone.",
         "  cloche context restart box python", 2},
	{"rm", remove_context, "context rm", "[OPTIONS] SANDBOX CONTEXT",
         "Ends its interpreter and forgets it.", "  cloche context rm box analysis", 2},
};

static int print_group_help(FILE *out, int status)
{
	(void)fputs("Usage: cloche context COMMAND\n\n"
	            "Contexts: named interpreters of a sandbox, whose variables last from call to "
	            "call. Each language has\na default one with the language's name, made on "
	            "first use.\n\n"
	            "Commands:\n",
	            out);
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		(void)fprintf(out, "  %-11s%s\n", subcommands[i].word, subcommands[i].about);
	(void)fputs("\n'cloche context COMMAND --help' says more of each.\n", out);
	return status;
}

static int run_subcommand(size_t i, int argc, char **argv)
{
	struct context_opts opts = {0};
	/* clang-format off */
	const struct opt rows[] = {
		{'l', "language", OPT_TEXT, &opts.language, "LANG", "python (default), javascript, typescript or bash"},
		{'w', "cwd",      OPT_TEXT, &opts.cwd,      "DIR",  "in this directory (default the user's home)"},
		{'u', "user",     OPT_TEXT, &opts.user,     "NAME", "as this user of the sandbox (default user)"},
		{'e', "env",      OPT_LIST, &opts.env,      "K=V",  "environment; a bare K takes yours; may be repeated"},
	};
	/* clang-format on */
	const struct manual manual = {
		.name = subcommands[i].name,
		.synopsis = subcommands[i].synopsis,
		.about = subcommands[i].about,
		.examples = subcommands[i].examples,
		.min_words = subcommands[i].n_words,
		.max_words = subcommands[i].n_words,
		.opts = rows,
		.n_opts = subcommands[i].fn == create ? ARRAY_SIZE(rows) : 0,
	};
	int status = command_main(&manual, argc, argv, subcommands[i].fn, &opts);

	opt_list_done(&opts.env);
	return status;
}

int cmd_context(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return print_group_help(stdout, 0);
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(subcommands); i++)
		if (strcmp(argv[1], subcommands[i].word) == 0)
			return run_subcommand(i, argc - 1, argv + 1);
	return print_group_help(stderr, EXIT_CLOCHE);
}
