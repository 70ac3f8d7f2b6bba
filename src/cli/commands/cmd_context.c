// SPDX-License-Identifier: Apache-2.0
/* context: the named interpreters of a sandbox. */
#include "cli/frame/group.h"
#include "cli/session/script_language.h"
#include "cli/session/spec.h"

struct context_opts {
	const char *language, *cwd, *user;
	struct opt_list env;
};

static const struct column columns[] = {
	{"NAME", "name"},   {"LANGUAGE", "language"},
	{"STATE", "state"}, {"CALLS", "count", cell_number},
	{"ID", "id"},
};
static const struct resource contexts = {.plural = "contexts",
                                         .parent = "sandboxes",
                                         .columns = columns,
                                         .n_columns = ARRAY_SIZE(columns),
                                         .printed = "name"};

static void put_text(json_t *body, const char *name, const char *value)
{
	if (value)
		(void)json_object_set_new(body, name, json_string(value));
}

static int create(struct command *c, struct err *err)
{
	const struct context_opts *opts = c->arg;
	auto_json json_t *body = json_object();
	json_t *env = NULL;
	int r = env_to_json(&opts->env, &env, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", env);
	put_text(body, "name", c->words[1]);
	put_text(body, "language", language_full_name(opts->language));
	put_text(body, "cwd", opts->cwd);
	put_text(body, "user", opts->user);
	return resource_create(c, body, "name", err);
}

static int act(struct command *c, const char *verb, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "contexts", c->words[1], verb);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "POST", path, NULL, &reply, err);

	if (r == 0)
		command_print_reply(c, reply, "name");
	return r;
}

static int restart(struct command *c, struct err *err)
{
	return act(c, "restart", err);
}

static int interrupt(struct command *c, struct err *err)
{
	return act(c, "interrupt", err);
}

#define NEW_OPTS 4

static const struct subcommand subcommands[] = {
	{"ls", resource_ls, "[OPTIONS] SANDBOX",
         "Lists the contexts of a sandbox, with their state and how many calls they ran.",
         "  cloche context ls box", .n_words = 1, .resource = &contexts},
	{"new", create, "[OPTIONS] SANDBOX NAME",
         "Makes a context: an interpreter with variables of its own.",
         "  cloche context new box analysis\n"
         "  cloche context new -l javascript --cwd /tmp -e DEBUG=1 box js",
         .n_words = 2, .n_opts = NEW_OPTS, .resource = &contexts},
	{"interrupt", interrupt, "[OPTIONS] SANDBOX CONTEXT",
         "Interrupts what runs in it; the variables stay.", "  cloche context interrupt box python",
         .n_words = 2},
	{"restart", restart, "[OPTIONS] SANDBOX CONTEXT",
         "Gives it a fresh interpreter; the variables are gone.",
         "  cloche context restart box python", .n_words = 2},
	{"rm", resource_rm, "[OPTIONS] SANDBOX CONTEXT", "Ends its interpreter and forgets it.",
         "  cloche context rm box analysis", .n_words = 2, .resource = &contexts},
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
		{'l', "language", OPT_TEXT, &opts.language, "LANG", "python (default), javascript, typescript, bash, r or java; py, js, ts and sh are short"},
		{'w', "cwd",      OPT_TEXT, &opts.cwd,      "DIR",  "in this directory (default the template's, or the user's home)"},
		{'u', "user",     OPT_TEXT, &opts.user,     "NAME", "as this user of the sandbox (default user)"},
		{'e', "env",      OPT_LIST, &opts.env,      "K=V",  "set this variable; K alone takes the value that you have; may be repeated"},
	};
	/* clang-format on */
	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.env);
	return status;
}
