// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: what to run is settled first (a plan: words, and perhaps a file to put
 * inside), then a daemon is found or hosted, a sandbox made, the file written, the exec joined to
 * our stdin, stdout and stderr, and the sandbox removed, whatever came in between.
 */
#include "base/fd.h"
#include "cli/frame/command.h"
#include "cli/session/fresh.h"
#include "cli/session/own_command.h"
#include "cli/session/script_language.h"
#include "cli/session/session.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CODE_IN_ARGV_MAX (64 * 1024) /* longer code goes inside as a file */

struct run {
	struct sandbox_opts sandbox;
	const char *language, *code, *user, *cwd;
	bool keep, wants_stdin, no_stdin, wants_pty, is_standalone;
	uint64_t timeout_ms;
};

struct plan {
	json_t *argv;
	const char *language; /* its name, where it is known */
	char *file;           /* its name inside, in the user's home; NULL = none */
	struct buf content;
	bool is_executable;
	bool takes_stdin; /* the code itself came from there */
};

static void plan_done(struct plan *p)
{
	json_decref(p->argv);
	free(p->file);
	buf_done(&p->content);
}

static void add_word(struct plan *p, const char *word)
{
	(void)json_array_append_new(p->argv, json_string(word));
}

static int add_words(struct plan *p, char *const *words, size_t n, struct err *err)
{
	auto_json json_t *rest = NULL;
	int r = argv_to_json(words, n, &rest, err);

	if (r == 0)
		(void)json_array_extend(p->argv, rest);
	return r;
}

/* The file is named so that no program takes it for an option. */
static void add_file_word(struct plan *p)
{
	auto_free char *path = xasprintf("./%s", p->file);

	add_word(p, path);
}

static int plan_code(struct plan *p, const struct language *language, const char *code,
                     struct err *err)
{
	p->language = language->name;
	add_word(p, language->program);
	if (language->code_flag && strlen(code) <= CODE_IN_ARGV_MAX) {
		add_word(p, language->code_flag);
		if (json_array_append_new(p->argv, json_string(code)) < 0)
			return err_set(err, ERR_INVALID_FIELD, 0, "the code is not valid UTF-8");
		if (language->own_name)
			add_word(p, language->own_name);
		return 0;
	}
	p->file = xasprintf("main.%s", language->extension);
	add_file_word(p);
	return buf_append_str(&p->content, code) < 0
	               ? err_set(err, ERR_TOO_LARGE, 0, "the code is larger than 16 MiB")
	               : 0;
}

static int open_script(const char *path, struct plan *p, int *ret_fd, struct err *err)
{
	struct stat st;
	int fd;

	if (strcmp(path, "-") == 0) {
		p->takes_stdin = true;
		*ret_fd = dup(STDIN_FILENO);
		return *ret_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot read stdin") : 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		int r = err_set(err, ERR_NOT_FOUND, errno, "cannot read the file '%s'", path);

		(void)err_hint(err, "to run a program of the sandbox: cloche run -- %s …", path);
		return r;
	}
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		(void)close(fd);
		return err_set(err, ERR_INVALID_FIELD, EISDIR, "cannot run '%s'", path);
	}
	*ret_fd = fd;
	return 0;
}

/* A file, or stdin for "-": by -l, its extension, its first line, or (a file that names another
 * program there) itself. */
static int plan_file(struct plan *p, const struct language *language, const char *path,
                     struct err *err)
{
	const char *slash = strrchr(path, '/');
	bool is_stdin = strcmp(path, "-") == 0;
	auto_fd int fd = -1;
	int r = open_script(path, p, &fd, err);

	if (r == 0)
		r = script_read(fd, is_stdin ? "stdin" : path, &p->content, err);
	if (r < 0)
		return r;
	if (!language && !is_stdin)
		language = language_by_path(path);
	if (!language)
		language = language_by_shebang(buf_str(&p->content));
	if (!language && p->content.len > 2 && memcmp(p->content.data, "#!", 2) == 0)
		p->is_executable = true;
	else if (!language && is_stdin)
		language = language_default;
	if (!language && !p->is_executable) {
		(void)err_set(err, ERR_INVALID_FIELD, 0, "the language of '%s' is not known", path);
		return err_hint(err, "name it: cloche run -l python %s", path);
	}
	p->file = is_stdin ? xasprintf("main.%s", language ? language->extension : "script")
	                   : xstrdup(slash ? slash + 1 : path);
	if (language) {
		p->language = language->name;
		add_word(p, language->program);
	}
	add_file_word(p);
	return 0;
}

static int make_plan(const struct command *c, struct plan *p, struct err *err)
{
	const struct run *opts = c->arg;
	const struct language *language = NULL;
	int r;

	if (opts->language) {
		language = language_by_name(opts->language);
		if (!language)
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "--language: '%s' is not one of " LANGUAGE_NAMES,
			               opts->language);
	}
	if (opts->code) {
		r = plan_code(p, language ? language : language_default, opts->code, err);
		return r < 0 ? r : add_words(p, c->words, c->n_words, err);
	}
	if (c->n_words == 0 && (opts->sandbox.template || opts->sandbox.image))
		return 0; /* its own command, which is known once there is a sandbox of it */
	if (c->n_words == 0) {
		(void)err_set(err, ERR_INVALID_FIELD, 0, "there is nothing to run");
		return err_hint(err, "cloche run -c 'print(6*7)', or cloche run --help");
	}
	if (c->common.has_dashes)
		return add_words(p, c->words, c->n_words, err);
	r = plan_file(p, language, c->words[0], err);
	return r < 0 ? r : add_words(p, c->words + 1, c->n_words - 1, err);
}

static ssize_t take_content(void *arg, char *data, size_t size, struct err *err)
{
	struct buf *b = arg;
	size_t n = MIN(size, b->len);

	(void)err;
	memcpy(data, buf_str(b), n);
	buf_consume(b, n);
	return (ssize_t)n;
}

/*
 * Where the script goes, for free(): into the user's home, where a command begins. If it begins
 * elsewhere (--cwd, the template's WORKDIR), the user may not write there, so the script goes to
 * /tmp, and its word tells that.
 */
static char *place_file(const char *directory, struct plan *p)
{
	auto_free char *word = xasprintf("./%s", p->file), *path = xasprintf("/tmp/%s", p->file);
	json_t *one;
	size_t i;

	if (!directory)
		return xstrdup(p->file);
	json_array_foreach(p->argv, i, one)
	{
		if (strcmp(json_string_value(one), word) != 0)
			continue;
		(void)json_array_set_new(p->argv, i, json_string(path));
		break; /* the user's own words are behind it */
	}
	return take_ptr(path);
}

static int put_file(struct remote *remote, const char *id, const struct run *opts, struct plan *p,
                    struct err *err)
{
	struct remote_request request = {.source = take_content,
	                                 .source_arg = &p->content,
	                                 .source_len = (int64_t)p->content.len};
	auto_free char *directory = NULL, *own_user = NULL, *place = NULL;
	const char *user;
	char *path;
	int r;

	own_place_read(remote, id, &directory, &own_user);
	user = opts->user ? opts->user : own_user;
	place = place_file(opts->cwd ? opts->cwd : directory, p);
	path = remote_query(remote_path("sandboxes", id, "files"), "path", place);
	path = remote_query(path, "mode", "0755");
	if (user)
		path = remote_query(path, "user", user);
	r = remote_exchange(remote, "PUT", path, &request, NULL, err);
	free(path);
	return r < 0 ? err_prefix(err, "cannot write the script into the sandbox") : 0;
}

static json_t *exec_body(const struct run *opts, const struct plan *p)
{
	json_t *body = json_object();
	const char *term = getenv("TERM");

	(void)json_object_set(body, "argv", p->argv);
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)opts->timeout_ms));
	if (opts->user)
		(void)json_object_set_new(body, "user", json_string(opts->user));
	if (opts->cwd)
		(void)json_object_set_new(body, "cwd", json_string(opts->cwd));
	if (opts->wants_pty && term)
		(void)json_object_set_new(body, "env", json_pack("{s:s}", "TERM", term));
	return body;
}

/* Ours is passed on when it is no terminal, or when it was asked for. */
static bool wants_stdin(const struct run *opts, const struct plan *p)
{
	if (p->takes_stdin || opts->no_stdin)
		return false;
	return opts->wants_stdin || opts->wants_pty || !isatty(STDIN_FILENO);
}

static int run_inside(struct command *c, struct interrupt *interrupt, const char *id,
                      struct plan *p, struct err *err)
{
	const struct run *opts = c->arg;
	auto_json json_t *body = exec_body(opts, p);
	struct session session = {.remote = c->remote,
	                          .sandbox = id,
	                          .body = body,
	                          .wants_stdin = wants_stdin(opts, p),
	                          .wants_pty = opts->wants_pty,
	                          .json = c->common.json,
	                          .interrupt = interrupt};
	int r = p->file ? put_file(c->remote, id, opts, p, err) : 0;

	return r < 0 ? r : session_run(&session, err);
}

static int run_in_sandbox(struct command *c, struct interrupt *interrupt, void *arg,
                          struct err *err)
{
	struct plan *p = arg;
	struct run *opts = c->arg;
	auto_free char *id = NULL;
	int status;

	opts->sandbox.language = p->language;
	status = fresh_create(c->remote, &opts->sandbox, &id, err);
	if (status < 0)
		return status;
	if (json_array_size(p->argv) == 0) {
		json_decref(take_ptr(p->argv));
		status = own_command_read(c->remote, id, &p->argv, err);
	}
	if (status == 0)
		status = interrupt_signal(interrupt) ? EXIT_SIGNAL + interrupt_signal(interrupt)
		                                     : run_inside(c, interrupt, id, p, err);
	if (opts->keep)
		(void)fprintf(stderr, "cloche: the sandbox is kept: %s\n", id);
	else
		fresh_remove(c->remote, id);
	if (!opts->keep && opts->sandbox.results.n > 0)
		(void)fprintf(stderr, "cloche: the results are kept, see: cloche results %s\n", id);
	return status;
}

/* NULL: a daemon for this run does. */
static const char *needs_daemon(const struct run *opts)
{
	return opts->keep ? "--keep" : opts->sandbox.results.n > 0 ? "--result" : NULL;
}

static int run(struct command *c, struct err *err)
{
	const struct run *opts = c->arg;
	struct plan p = {.argv = json_array(), .content = BUF_INIT(SCRIPT_MAX)};
	int r = 0;

	if (opts->is_standalone && opts->sandbox.results.n > 0) {
		r = err_set(err, ERR_INVALID_FIELD, 0,
		            "--result and --standalone cannot be combined");
		(void)err_hint(
			err,
			"a daemon keeps the results, and with --standalone it ends with the run");
	}
	if (r == 0 && opts->wants_pty && c->common.json)
		r = err_set(err, ERR_INVALID_FIELD, 0, "-t and --json cannot be combined");
	if (r == 0)
		r = make_plan(c, &p, err);
	if (r == 0)
		r = fresh_run(c, opts->is_standalone, needs_daemon(opts), run_in_sandbox, &p, err);
	plan_done(&p);
	return r;
}

int cmd_run(int argc, char **argv)
{
	struct run opts = {0};
	/* clang-format off */
	const struct opt rows[] = {
		{'l', "language",   OPT_TEXT, &opts.language,      "LANG", "python, javascript, typescript, bash, r or java; py, js, ts and sh are short (default: by the file, else python)"},
		{'c', "code",       OPT_TEXT, &opts.code,          "CODE", "run this code; the words after it are its arguments"},
		{0,   "timeout",    OPT_MS,   &opts.timeout_ms,    "TIME", "end it after this long, such as 30s (status 124)"},
		{'u', "user",       OPT_TEXT, &opts.user,          "NAME", "as this user of the sandbox: user (default) or root"},
		{'w', "cwd",        OPT_TEXT, &opts.cwd,           "DIR",  "in this directory (default the template's, or the user's home)"},
		{'i', "stdin",      OPT_FLAG, &opts.wants_stdin,   NULL,   "pass stdin on even if it is a terminal"},
		{'n', "no-stdin",   OPT_FLAG, &opts.no_stdin,      NULL,   "do not pass stdin on, even if it is piped"},
		{'t', "tty",        OPT_FLAG, &opts.wants_pty,     NULL,   "give it a terminal, connected to this one"},
		{0,   "keep",       OPT_FLAG, &opts.keep,          NULL,   "keep the sandbox afterwards"},
		{0,   "standalone", OPT_FLAG, &opts.is_standalone, NULL,   "start a daemon for this run even if one is running"},
		RESULT_OPT_ROW(opts.sandbox.results),
		SANDBOX_OPT_ROWS(opts.sandbox),
	};
	/* clang-format on */
	const struct manual manual = {
		.name = "run",
		.synopsis = "[OPTIONS] -c CODE [ARGS…]\n"
			    "[OPTIONS] FILE [ARGS…]\n"
			    "[OPTIONS] - [ARGS…]\n"
			    "[OPTIONS] -- COMMAND [ARGS…]\n"
			    "[OPTIONS] --image IMAGE|--template NAME",
		.about = "Runs code, a file, code from stdin, or a command, in a fresh sandbox "
			 "that is removed afterwards.\n"
			 "With --image or --template and none of these, it runs the image's own "
			 "command (ENTRYPOINT and CMD).\n"
			 "Output is printed as it is written. The exit status is the command's "
			 "own, or 124 if its time was\n"
			 "up, 125 if cloche failed, 126 if the command cannot be executed, 127 if "
			 "there is no such program,\n"
			 "and 128+N if signal N ended it. Ctrl-C interrupts it. If no daemon is "
			 "running, a temporary one is\n"
			 "started for this run; this needs root.",
		.examples = "  cloche run -c 'print(6*7)'\n"
			    "  cloche run -l bash -c 'id; hostname; exit 3'\n"
			    "  cloche run --package pandas -c 'import pandas; "
			    "print(pandas.__version__)'\n"
			    "  cloche run --memory 256m --timeout 10s job.py input.csv\n"
			    "  curl -s https://example.org/x.py | cloche run - --flag\n"
			    "  echo '3 4' | cloche run -- awk '{print $1 * $2}'\n"
			    "  cloche run -t -- bash",
		.words_end_options = true,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main_offline(&manual, argc, argv, run, &opts);

	sandbox_opts_done(&opts.sandbox);
	return status;
}
