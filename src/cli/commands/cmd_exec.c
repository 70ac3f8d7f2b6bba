// SPDX-License-Identifier: Apache-2.0
/* exec: a command in a sandbox; shell: the same with a terminal and a shell. */
#include "cli/frame/command.h"
#include "cli/session/session.h"
#include "cli/session/spec.h"

#include <stdio.h>
#include <string.h>

struct exec_opts {
	bool wants_stdin, wants_pty, is_detached;
	const char *user, *cwd;
	struct opt_list env;
	uint64_t timeout_ms;
};

static int make_body(const struct exec_opts *opts, char *const *argv, size_t n, json_t **ret,
                     struct err *err)
{
	auto_json json_t *body = json_object();
	json_t *value = NULL;
	int r = argv_to_json(argv, n, &value, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(body, "argv", value);
	r = env_to_json(&opts->env, &value, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", value);
	if (opts->user)
		(void)json_object_set_new(body, "user", json_string(opts->user));
	if (opts->cwd)
		(void)json_object_set_new(body, "cwd", json_string(opts->cwd));
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)opts->timeout_ms));
	*ret = take_ptr(body);
	return 0;
}

static int run_detached(struct command *c, json_t *body, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "execs");
	auto_json json_t *reply = NULL;
	int r;

	(void)json_object_set_new(body, "detached", json_true());
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "exec"));
	else
		printf("%s\n", command_text(json_object_get(reply, "exec"), "id"));
	return 0;
}

static int run_attached(struct command *c, const struct exec_opts *opts, json_t *body,
                        struct err *err)
{
	auto_call(interrupt_stopp) struct interrupt *interrupt = NULL;
	struct session session = {.remote = c->remote,
	                          .sandbox = c->words[0],
	                          .body = body,
	                          .wants_stdin = opts->wants_stdin,
	                          .wants_pty = opts->wants_pty,
	                          .json = c->common.json};
	int r = interrupt_start(&interrupt, err);

	if (r < 0)
		return r;
	session.interrupt = interrupt;
	return session_run(&session, err);
}

static int exec(struct command *c, struct err *err)
{
	const struct exec_opts *opts = c->arg;
	auto_json json_t *body = NULL;
	bool has_dashes = strcmp(c->words[1], "--") == 0;
	size_t first = has_dashes ? 2 : 1;
	int r;

	if (first == c->n_words)
		return err_set(err, ERR_INVALID_FIELD, 0, "there is no command behind the '--'");
	if (opts->wants_pty && (opts->is_detached || c->common.json))
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "-t connects the command to this terminal: it cannot be combined "
		               "with -d or --json");
	r = make_body(opts, c->words + first, c->n_words - first, &body, err);
	if (r < 0)
		return r;
	return opts->is_detached ? run_detached(c, body, err) : run_attached(c, opts, body, err);
}

int cmd_exec(int argc, char **argv)
{
	struct exec_opts opts = {0};
	/* clang-format off */
	const struct opt rows[] = {
		{'i', "stdin",    OPT_FLAG, &opts.wants_stdin, NULL,   "pass stdin on"},
		{'t', "tty",      OPT_FLAG, &opts.wants_pty,   NULL,   "give it a terminal, connected to this one"},
		{'d', "detach",   OPT_FLAG, &opts.is_detached, NULL,   "print the exec's id and leave it running"},
		{'u', "user",     OPT_TEXT, &opts.user,        "NAME", "run as this user of the sandbox (default user)"},
		{'w', "cwd",      OPT_TEXT, &opts.cwd,         "DIR",  "in this directory (default the template's, or the user's home)"},
		{'e', "env",      OPT_LIST, &opts.env,         "K=V",  "set this variable; K alone takes the value that you have; may be repeated"},
		{0,   "timeout",  OPT_MS,   &opts.timeout_ms,  "TIME", "after this long, end it with everything that it started"},
	};
	/* clang-format on */
	const struct manual manual = {
		.name = "exec",
		.synopsis = "[OPTIONS] SANDBOX COMMAND [ARGS…]",
		.about = "Runs a command in a sandbox, which is named by its id or name. Output is "
			 "passed on byte for byte. The\n"
			 "exit status is the command's own, or 124 if its time was up, 125 if "
			 "cloche failed, 126 if the\n"
			 "command cannot be executed, 127 if there is no such program, and 128+N "
			 "if signal N ended it. Ctrl-C\n"
			 "interrupts it.",
		.examples = "  cloche exec build make -j2\n"
			    "  cloche exec -u root build useradd ada\n"
			    "  cloche exec build sh -c 'echo $HOME; exit 3'\n"
			    "  tar c src | cloche exec -i build tar x\n"
			    "  cloche exec -it build python3\n"
			    "  id=$(cloche exec -d build sleep 60); cloche logs -f build $id",
		.words_end_options = true,
		.min_words = 2,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main(&manual, argc, argv, exec, &opts);

	opt_list_done(&opts.env);
	return status;
}

/* The user's own word wins; else bash where there is one. */
static int shell(struct command *c, struct err *err)
{
	static const char choose[] = "command -v bash >/dev/null && exec bash -l; exec sh -l";
	char *fallback[] = {unconst("sh"), unconst("-c"), unconst(choose)};
	struct exec_opts *opts = c->arg;
	auto_json json_t *body = NULL;
	const char *term = getenv("TERM");
	int r;

	if (c->common.json)
		return err_set(err, ERR_INVALID_FIELD, 0, "a shell cannot be combined with --json");
	r = c->n_words > 1 ? make_body(opts, c->words + 1, c->n_words - 1, &body, err)
	                   : make_body(opts, fallback, ARRAY_SIZE(fallback), &body, err);
	if (r < 0)
		return r;
	if (term)
		(void)json_object_set_new(json_object_get(body, "env"), "TERM", json_string(term));
	opts->wants_pty = opts->wants_stdin = true;
	return run_attached(c, opts, body, err);
}

int cmd_shell(int argc, char **argv)
{
	struct exec_opts opts = {0};
	const struct opt rows[] = {
		{'u', "user", OPT_TEXT, &opts.user, "NAME", "as this user of the sandbox"},
		{'w', "cwd", OPT_TEXT, &opts.cwd, "DIR", "in this directory"},
		{'e', "env", OPT_LIST, &opts.env, "K=V", "set this variable; may be repeated"},
	};
	const struct manual manual = {
		.name = "shell",
		.synopsis = "[OPTIONS] SANDBOX [SHELL [ARGS…]]",
		.about = "Opens a terminal in a sandbox: with bash if it has one, else with sh. "
			 "All keys go to the sandbox, also\n"
			 "Ctrl-C. Leave with 'exit' or Ctrl-D. The exit status is the shell's.",
		.examples = "  cloche shell build\n"
			    "  cloche shell -u root build\n"
			    "  cloche shell build python3",
		.words_end_options = true,
		.min_words = 1,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main(&manual, argc, argv, shell, &opts);

	opt_list_done(&opts.env);
	return status;
}
