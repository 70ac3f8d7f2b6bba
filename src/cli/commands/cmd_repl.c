// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: read a cell, run it as a call, show what comes of it, until the input or the
 * interpreter ends. The state is the context's, inside; here is nothing but the lines of a cell
 * that is not whole yet. With no sandbox named there is a fresh one, removed at the end, and with
 * no daemon running one is hosted, as `cloche run` does.
 */
#include "cli/frame/command.h"
#include "cli/prompt/cell_complete.h"
#include "cli/prompt/prompt.h"
#include "cli/session/call.h"
#include "cli/session/cell_words.h"
#include "cli/session/fresh.h"
#include "cli/session/script_language.h"
#include "cli/term/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct repl_opts {
	struct sandbox_opts sandbox;
	const char *language, *context, *images;
	bool is_standalone;
};

struct repl {
	struct cancel *cancel;
	struct show show;
	struct call call;
	const char *language; /* never NULL */
};

static const struct {
	const char *language, *first, *more;
} leads[] = {
	{"python", ">>> ", "... "},
	{"javascript", "> ", "... "},
	{"typescript", "> ", "... "},
	{"bash", "$ ", "> "},
	{"r", "> ", "+ "},
	{"java", "jshell> ", "   ...> "},
};

static const char *find_lead(const char *language, bool is_first)
{
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++)
		if (strcmp(leads[i].language, language) == 0)
			return is_first ? leads[i].first : leads[i].more;
	return is_first ? "> " : "... ";
}

/* Lines until they make a cell. 1: there is one; 0: the end of the input; -EINTR: dropped. */
static int read_cell(struct repl *repl, struct prompt *prompt, struct buf *cell)
{
	bool is_first = true;

	buf_truncate(cell, 0);
	do {
		auto_free char *line = NULL;
		int r = prompt_read(prompt, find_lead(repl->language, is_first), &line);

		if (r <= 0)
			return r;
		if (is_first && line[strspn(line, " \t")] == '\0')
			continue; /* nothing was begun */
		if ((!is_first && buf_append_str(cell, "\n") < 0) || buf_append_str(cell, line) < 0)
			return 1; /* too long: the daemon will say so */
		is_first = false;
	} while (is_first || !cell_is_complete(repl->language, buf_str(cell)));
	return 1;
}

/* What went wrong with one call and not with the sandbox or the connection. */
static bool may_go_on(const struct err *err)
{
	return err->code == ERR_INVALID_FIELD || err->code == ERR_CONFLICT ||
	       err->code == ERR_LIMIT || err->code == ERR_TOO_LARGE;
}

static int run_cell(struct repl *repl, const struct buf *cell, struct call_end *ret,
                    struct err *err)
{
	int r = call_run(&repl->call, buf_str(cell), cell->len, ret, err);

	show_finish_line(&repl->show);
	if (r < 0 && may_go_on(err)) {
		(void)text_fail(err);
		return 0;
	}
	return r;
}

static int talk(struct repl *repl, struct prompt *prompt, struct buf *cell, struct err *err)
{
	struct call_end end = {0};
	int r;

	for (;;) {
		r = read_cell(repl, prompt, cell);
		if (r == 0)
			(void)fputs("\n", stderr); /* behind the prompt where Ctrl-D was typed */
		if (cancel_signal(repl->cancel))
			return EXIT_SIGNAL + cancel_signal(repl->cancel);
		if (r == 0)
			return 0;
		if (r < 0) {
			(void)fputs("^C\n", stderr);
			continue;
		}
		r = run_cell(repl, cell, &end, err);
		if (r < 0)
			return r;
		if (end.is_exit)
			return end.status;
	}
}

static int talk_at_terminal(struct repl *repl, struct err *err)
{
	auto_call(prompt_closep) struct prompt *prompt = NULL;
	struct cell_words words = {.remote = repl->call.remote,
	                           .sandbox = repl->call.sandbox,
	                           .language = repl->language,
	                           .context = repl->call.context};
	struct buf cell = BUF_INIT(SCRIPT_MAX);
	int r = prompt_open(repl->cancel, &prompt, err);

	if (r < 0)
		return r;
	prompt_set_words(prompt, strcmp(repl->language, "python") == 0 ? "    " : "\t", cell_words,
	                 &words);
	repl->show.names_forms = true;
	(void)fprintf(stderr, "%s in sandbox %s. Ctrl-C interrupts, Ctrl-D leaves.\n",
	              repl->language, repl->call.sandbox);
	r = talk(repl, prompt, &cell, err);
	buf_done(&cell);
	return r;
}

/* Not from a terminal: all of the input is one cell. */
static int run_input(struct repl *repl, struct err *err)
{
	struct buf cell = BUF_INIT(SCRIPT_MAX);
	struct call_end end = {0};
	int r = script_read(STDIN_FILENO, "stdin", &cell, err);

	if (r == 0)
		r = call_run(&repl->call, buf_str(&cell), cell.len, &end, err);
	buf_done(&cell);
	if (r == 0 && cancel_signal(repl->cancel))
		return EXIT_SIGNAL + cancel_signal(repl->cancel);
	return r < 0 ? r : end.status;
}

/* A context that was named and is not there is made. */
static int ensure_context(struct repl *repl, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", repl->call.sandbox, "contexts");
	auto_json json_t *body = json_object();
	int r;

	if (!repl->call.context)
		return 0;
	(void)json_object_set_new(body, "name", json_string(repl->call.context));
	(void)json_object_set_new(body, "language", json_string(repl->language));
	r = remote_call(repl->call.remote, "POST", path, body, NULL, err);
	return r < 0 && err->code == ERR_CONFLICT ? 0 : r;
}

static int run_repl(struct command *c, struct cancel *cancel, const char *sandbox, struct err *err)
{
	const struct repl_opts *opts = c->arg;
	struct repl repl = {.cancel = cancel,
	                    .language =
	                            opts->language ? language_full_name(opts->language) : "python",
	                    .show.images.dir = opts->images ? opts->images : "."};
	int r;

	repl.call = (struct call){.remote = c->remote,
	                          .cancel = cancel,
	                          .show = &repl.show,
	                          .sandbox = sandbox,
	                          .language = repl.language,
	                          .context = opts->context};
	output_init(&repl.show.output, c->common.json ? OUTPUT_EVENTS : OUTPUT_RAW);
	r = ensure_context(&repl, err);
	if (r == 0)
		r = isatty(STDIN_FILENO) ? talk_at_terminal(&repl, err) : run_input(&repl, err);
	output_done(&repl.show.output);
	return r;
}

static int run_in_fresh(struct command *c, struct cancel *cancel, struct err *err)
{
	struct repl_opts *opts = c->arg;
	auto_free char *id = NULL;
	int r;

	opts->sandbox.language = opts->language ? language_full_name(opts->language) : NULL;
	r = fresh_create(c->remote, &opts->sandbox, &id, err);
	if (r < 0)
		return r;
	r = run_repl(c, cancel, id, err);
	fresh_remove(c->remote, id);
	return r;
}

static int check_options(const struct command *c, struct err *err)
{
	const struct repl_opts *opts = c->arg;

	if (c->n_words > 0 && (sandbox_opts_are_given(&opts->sandbox) || opts->is_standalone))
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "options of a fresh sandbox cannot be given for '%s', which is "
		               "there already",
		               c->words[0]);
	if (c->common.json && isatty(STDIN_FILENO))
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "a prompt cannot be combined with --json");
	return 0;
}

static int repl(struct command *c, struct err *err)
{
	const struct repl_opts *opts = c->arg;
	auto_call(cancel_stopp) struct cancel *cancel = NULL;
	auto_call(private_daemon_stopp) struct private_daemon *own = NULL;
	int r = check_options(c, err);

	if (r == 0)
		r = cancel_start(&cancel, err);
	if (r < 0)
		return r;
	r = opts->is_standalone ? -ENOTCONN : remote_open(&c->common, &c->remote, err);
	if (r == -ENOTCONN && c->n_words == 0)
		r = fresh_private_daemon(NULL, &own, &c->remote, err);
	if (r < 0)
		return r;
	return c->n_words > 0 ? run_repl(c, cancel, c->words[0], err)
	                      : run_in_fresh(c, cancel, err);
}

int cmd_repl(int argc, char **argv)
{
	struct repl_opts opts = {0};
	/* clang-format off */
	const struct opt rows[] = {
		{'l', "language",   OPT_TEXT, &opts.language,      "LANG", "python (default), javascript, typescript, bash, r or java; py, js, ts and sh are short"},
		{0,   "context",    OPT_TEXT, &opts.context,       "NAME", "in this context, made if it is not there"},
		{0,   "images",     OPT_TEXT, &opts.images,        "DIR",  "where images are saved (default: here)"},
		{0,   "standalone", OPT_FLAG, &opts.is_standalone, NULL,   "start a daemon for this even if one is running"},
		SANDBOX_OPT_ROWS(opts.sandbox),
	};
	/* clang-format on */
	const struct manual manual = {
		.name = "repl",
		.synopsis = "[OPTIONS] [SANDBOX]",
		.about = "Opens a prompt on an interpreter of a sandbox. Without SANDBOX it is a "
			 "fresh one, which is removed at\n"
			 "the end. Lines can be edited, and are kept in "
			 "~/.local/state/cloche/history. Tab completes\n"
			 "names that the interpreter knows. A cell goes on while\n"
			 "brackets or quotes are open; an empty line ends a block of Python. "
			 "Ctrl-C interrupts what runs and\n"
			 "keeps the variables, or drops the line that you type; three times, it "
			 "restarts the interpreter. Ctrl-D\n"
			 "leaves. Images are saved as files cloche-N.png, whose names are printed. "
			 "If stdin is no terminal, all\n"
			 "of it is one cell, and the exit status is that of 'cloche code'.",
		.examples = "  cloche repl\n"
			    "  cloche repl -l javascript\n"
			    "  cloche repl --memory 1g --images plots\n"
			    "  cloche repl --context analysis box\n"
			    "  echo 'print(6*7)' | cloche repl",
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main_offline(&manual, argc, argv, repl, &opts);

	sandbox_opts_done(&opts.sandbox);
	return status;
}
