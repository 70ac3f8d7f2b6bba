// SPDX-License-Identifier: Apache-2.0
/*
 * `completion`: scripts for shells, which ask `cloche completion --words -- WORDS…` what may come
 * next. The answer is read from this program's own --help (complete.h), and names of sandboxes,
 * snapshots and templates come from the daemon. If no daemon answers, that is no failure: there are
 * no names to offer.
 */
#include "base/fd.h"
#include "cli/frame/command.h"
#include "cli/frame/complete.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define HELP_MAX (64 * 1024)

/* The files of src/cli/completion. */
extern const unsigned char completion_bash[], completion_zsh[], completion_fish[];
extern const size_t completion_bash_len, completion_zsh_len, completion_fish_len;

static int print_script(const char *shell, struct err *err)
{
	const struct {
		const char *shell;
		const unsigned char *text;
		size_t len;
	} scripts[] = {
		{"bash", completion_bash, completion_bash_len},
		{"zsh", completion_zsh, completion_zsh_len},
		{"fish", completion_fish, completion_fish_len},
	};

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
		if (strcmp(shell, scripts[i].shell) == 0) {
			(void)fwrite(scripts[i].text, 1, scripts[i].len, stdout);
			return 0;
		}
	return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is none of bash, zsh, fish", shell);
}

/* In the child: what it prints is read by the parent. */
static void exec_help(int out_fd, char *const *words, size_t n)
{
	char *argv[5] = {unconst("cloche")};
	size_t argc = 1;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; i < n && argc < 3; i++)
		argv[argc++] = words[i];
	argv[argc] = unconst("--help");
	if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 && dup2(null_fd, STDERR_FILENO) >= 0 &&
	    dup2(out_fd, STDOUT_FILENO) >= 0)
		(void)execv("/proc/self/exe", argv);
	_exit(EXIT_CLOCHE);
}

/* What `cloche WORDS --help` prints, of at most two words. */
static int read_help(char *const *words, size_t n, struct buf *out)
{
	int fds[2];
	auto_fd int in_fd = -1;
	pid_t pid;
	ssize_t got;
	char *room;

	buf_truncate(out, 0);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in_fd = fds[0];
	pid = fork();
	if (pid == 0)
		exec_help(fds[1], words, n);
	(void)close(fds[1]);
	if (pid < 0)
		return -EAGAIN;
	while (buf_reserve(out, MIN(buf_room(out), 4096U), &room) == 0 && buf_room(out) > 0 &&
	       (got = read(in_fd, room, MIN(buf_room(out), 4096U))) > 0)
		buf_commit(out, (size_t)got);
	(void)waitpid(pid, NULL, 0);
	return 0;
}

/* A line for the shell's script; what the daemon told is not let near a terminal as it is. */
static void print_word(const char *word, size_t len, const char *help, size_t help_len, void *arg)
{
	(void)arg;
	printf("%.*s\t%.*s\n", (int)len, word, (int)help_len, help);
}

static bool is_plain(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return *name != '\0';
}

static void print_name(const char *name, const char *prefix, const char *help)
{
	if (is_plain(name) && strncmp(name, prefix, strlen(prefix)) == 0)
		print_word(name, strlen(name), help, strlen(help), NULL);
}

/* Names first: they are what people have in mind. */
static int print_names(struct command *c, const char *kind, const char *prefix, struct err *err)
{
	static const struct {
		const char *kind, *list, *help;
	} kinds[] = {
		{"SANDBOX", "sandboxes", "state"},
		{"SNAPSHOT", "snapshots", "sandbox_id"},
		{"TEMPLATE", "templates", "description"},
	};
	auto_json json_t *list = json_array();
	auto_free char *path = NULL;
	const json_t *one;
	size_t i, k = 0;
	int r;

	while (k < ARRAY_SIZE(kinds) && strcmp(kinds[k].kind, kind) != 0)
		k++;
	if (k == ARRAY_SIZE(kinds))
		return 0;
	path = remote_path(kinds[k].list);
	r = remote_open(&c->common, &c->remote, err);
	if (r == 0)
		r = remote_list(c->remote, path, kinds[k].list, list, err);
	if (r < 0)
		return 0;
	json_array_foreach(list, i, one)
	{
		auto_free char *help = text_escaped(command_text(one, kinds[k].help));

		print_name(command_text(one, "name"), prefix, help);
		print_name(command_text(one, "id"), prefix, help);
	}
	return 0;
}

static int print_words(struct command *c, struct err *err)
{
	auto_call(buf_done) struct buf help = BUF_INIT(HELP_MAX);
	const char *last = c->n_words > 0 ? c->words[c->n_words - 1] : "";
	size_t at = 0;
	char kind[32];
	int r = read_help(c->words, 0, &help);

	for (; r == 0 && complete_has_command(buf_str(&help), NULL); at++) {
		if (at + 1 >= c->n_words) {
			complete_commands(buf_str(&help), last, print_word, NULL);
			break;
		}
		if (!complete_has_command(buf_str(&help), c->words[at]))
			return 0;
		r = read_help(c->words, at + 1, &help);
	}
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot read this program's own --help");
	complete_words(buf_str(&help), c->words + at, c->n_words - at, print_word, NULL, kind,
	               sizeof(kind));
	return print_names(c, kind, last, err);
}

static int completion(struct command *c, struct err *err)
{
	const bool *wants_words = c->arg;

	if (*wants_words)
		return print_words(c, err);
	if (c->n_words != 1)
		return err_set(err, ERR_INVALID_FIELD, 0, "name the shell: bash, zsh or fish");
	return print_script(c->words[0], err);
}

int cmd_completion(int argc, char **argv)
{
	bool wants_words = false;
	const struct opt rows[] = {
		{0, "words", OPT_FLAG, &wants_words, NULL,
	         "print what may follow the words after '--'; the scripts use this"},
	};
	const struct manual manual = {
		.name = "completion",
		.synopsis = "bash|zsh|fish",
		.about = "Prints a script that lets a shell complete commands, options and the "
			 "names "
			 "of sandboxes, snapshots\nand templates.",
		.examples = "  source <(cloche completion bash)\n"
			    "  cloche completion zsh > ~/.zfunc/_cloche\n"
			    "  cloche completion fish > ~/.config/fish/completions/cloche.fish",
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, completion, &wants_words);
}
