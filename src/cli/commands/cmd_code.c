// SPDX-License-Identifier: Apache-2.0
/* code: a call in a context of a sandbox, from words, a file or stdin. */
#include "cli/frame/command.h"
#include "cli/session/call.h"
#include "cli/session/script_language.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct code_opts {
	const char *language, *context, *file, *images;
	uint64_t timeout_ms;
};

static int read_from(const char *path, struct buf *ret, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	auto_fd int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read the file '%s'", path);
	return script_read(fd, is_stdin ? "stdin" : path, ret, err);
}

static int read_code(const struct command *c, struct buf *ret, struct err *err)
{
	const struct code_opts *opts = c->arg;
	const char *word = c->n_words > 1 ? c->words[1] : NULL;

	if (opts->file && word)
		return err_set(err, ERR_INVALID_FIELD, 0, "code is given twice: '%s' and --file",
		               word);
	if (opts->file || (word && strcmp(word, "-") == 0))
		return read_from(opts->file ? opts->file : word, ret, err);
	if (word)
		return buf_append_str(ret, word) < 0
		               ? err_set(err, ERR_TOO_LARGE, 0, "the code is larger than 16 MiB")
		               : 0;
	if (!isatty(STDIN_FILENO))
		return read_from("-", ret, err);
	(void)err_set(err, ERR_INVALID_FIELD, 0, "there is no code");
	return err_hint(err, "cloche code %s 'print(6*7)', or cloche repl %s", c->words[0],
	                c->words[0]);
}

/* -l, else what the file's name tells, else the context's own. */
static const char *choose_language(const struct code_opts *opts)
{
	const char *dot = opts->file ? strrchr(opts->file, '.') : NULL;
	const struct language *l;

	if (opts->language || opts->context || !opts->file)
		return language_full_name(opts->language);
	if (dot && strcmp(dot, ".ts") == 0)
		return "typescript";
	l = language_by_path(opts->file);
	return l ? l->name : NULL;
}

static int run_code(const struct command *c, const struct buf *code, struct err *err)
{
	const struct code_opts *opts = c->arg;
	auto_call(cancel_stopp) struct cancel *cancel = NULL;
	struct show show = {.images.dir = opts->images};
	struct call call = {.remote = c->remote,
	                    .show = &show,
	                    .sandbox = c->words[0],
	                    .language = choose_language(opts),
	                    .context = opts->context,
	                    .timeout_ms = opts->timeout_ms};
	struct call_end end = {0};
	int r = cancel_start(&cancel, err);

	if (r < 0)
		return r;
	call.cancel = cancel;
	output_init(&show.output, c->common.json ? OUTPUT_EVENTS : OUTPUT_RAW);
	r = call_run(&call, buf_str(code), code->len, &end, err);
	output_done(&show.output);
	if (r == 0 && cancel_signal(cancel))
		return EXIT_SIGNAL + cancel_signal(cancel);
	return r < 0 ? r : end.status;
}

static int code(struct command *c, struct err *err)
{
	struct buf text = BUF_INIT(SCRIPT_MAX);
	int r = read_code(c, &text, err);

	if (r == 0)
		r = run_code(c, &text, err);
	buf_done(&text);
	return r;
}

int cmd_code(int argc, char **argv)
{
	struct code_opts opts = {0};
	/* clang-format off */
	const struct opt rows[] = {
		{'l', "language", OPT_TEXT, &opts.language,   "LANG", "python (default), javascript, typescript, bash, r or java; py, js, ts and sh are short"},
		{0,   "context",  OPT_TEXT, &opts.context,    "NAME", "in this context (default: the language's own)"},
		{'f', "file",     OPT_TEXT, &opts.file,       "FILE", "take the code from a file; '-' is stdin"},
		{0,   "timeout",  OPT_MS,   &opts.timeout_ms, "TIME", "interrupt it after this long, such as 30s (status 124)"},
		{0,   "images",   OPT_TEXT, &opts.images,     "DIR",  "save images that it shows in this directory"},
	};
	/* clang-format on */
	const struct manual manual = {
		.name = "code",
		.synopsis = "[OPTIONS] SANDBOX CODE\n"
			    "[OPTIONS] SANDBOX -f FILE\n"
			    "[OPTIONS] SANDBOX -",
		.about = "Runs code in an interpreter of a sandbox, which keeps its variables from "
			 "call to call. What the code\n"
			 "prints is passed on as it comes. The value of the last expression goes "
			 "to stdout, and an error with\n"
			 "its traceback to stderr. The exit status is 0, 1 after an error, the "
			 "code's own if it exits, 124 if\n"
			 "its time was up, 125 if cloche failed, and 128+N if signal N ended the "
			 "interpreter. Ctrl-C interrupts\n"
			 "the code and keeps the variables. --json prints each event as a line.",
		.examples = "  cloche code box 'x = 20'\n"
			    "  cloche code box 'x + 22'\n"
			    "  cloche code -l bash box 'cd /tmp; ls'\n"
			    "  cloche code --images . box -f plot.py\n"
			    "  echo 'sum(range(10))' | cloche code box -\n"
			    "  cloche context new box other && cloche code --context other box 'x'",
		.min_words = 1,
		.max_words = 2,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, code, &opts);
}
