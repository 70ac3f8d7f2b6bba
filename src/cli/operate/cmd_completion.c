// SPDX-License-Identifier: Apache-2.0
/*
 * `completion`: scripts for shells, which ask `cloche completion --words -- WORDS…` what may come
 * next. The answer is read from this program's own --help (complete.h), and what a word of a kind
 * may be from a table and the daemon (completion_values.h). If no daemon answers, that is no
 * failure: there are no names to offer.
 */
#include "base/fd.h"
#include "cli/frame/command.h"
#include "cli/frame/complete.h"
#include "cli/operate/completion_values.h"

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
	return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not bash, zsh or fish", shell);
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

/* A line for the shell's script. */
static void print_word(const char *word, size_t len, const char *help, size_t help_len, void *arg)
{
	(void)arg;
	printf("%.*s\t%.*s\n", (int)len, word, (int)help_len, help);
}

static int print_words(struct command *c, struct err *err)
{
	auto_call(buf_done) struct buf help = BUF_INIT(HELP_MAX);
	const char *last = c->n_words > 0 ? c->words[c->n_words - 1] : "";
	struct complete_place place;
	size_t at = 0;
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
	complete_words(buf_str(&help), c->words + at, c->n_words - at, print_word, NULL, &place);
	completion_values(c, &place, print_word, NULL);
	return 0;
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
		.about = "Prints a script that lets a shell complete commands, options, and what "
			 "they take: languages, engines,\n"
			 "and the names of sandboxes, snapshots, templates, volumes, keys and "
			 "projects. Names come from the\n"
			 "daemon; if it does not answer within two seconds, none are offered.",
		.examples = "  source <(cloche completion bash)\n"
			    "  cloche completion zsh > ~/.zfunc/_cloche\n"
			    "  cloche completion fish > ~/.config/fish/completions/cloche.fish",
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, completion, &wants_words);
}
