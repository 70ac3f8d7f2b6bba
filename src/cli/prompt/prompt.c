// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: libedit does the editing and we do its reading, so that a line can be given
 * up when a signal comes: signals are blocked in this thread, and cancel_fd() tells of them. The
 * terminal is in libedit's mode only while a line is read; when code runs it is the user's own.
 * After Ctrl-Z the shell gives the terminal back in the shell's mode, so libedit's mode is set
 * again.
 */
#include "cli/prompt/prompt.h"

#include "cli/prompt/prompt_history.h"

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#define CTRL_D 4

struct prompt {
	EditLine *el;
	History *history;
	struct prompt_history prompt_history;
	struct cancel *cancel;
	const char *lead, *indent;
	bool was_cancelled;
	prompt_words_fn words;
	void *words_arg;
};

/* Of SIGCONT and SIGWINCH, which come to this thread only; there is one prompt at a time. */
static volatile sig_atomic_t has_changed;

static void on_change(int signo)
{
	(void)signo;
	has_changed = true;
}

static void watch_changes(void)
{
	struct sigaction action = {.sa_handler = on_change};

	(void)sigaction(SIGCONT, &action, NULL);
	(void)sigaction(SIGWINCH, &action, NULL);
}

static struct prompt *prompt_of(EditLine *el)
{
	void *p = NULL;

	(void)el_get(el, EL_CLIENTDATA, &p);
	return p;
}

static char *give_lead(EditLine *el)
{
	return unconst(prompt_of(el)->lead);
}

/* The terminal was somebody else's meanwhile, or has another size. */
static void take_back_terminal(EditLine *el)
{
	has_changed = false;
	(void)el_set(el, EL_PREP_TERM, 0);
	(void)el_set(el, EL_PREP_TERM, 1);
	el_resize(el);
	(void)el_set(el, EL_REFRESH);
}

/* As poll(), which a change of the terminal ends, whenever it comes: it is held back from the look
 * for one until it is waited for. */
static int wait_for_any(struct prompt *p, struct pollfd *fds, nfds_t n)
{
	sigset_t changes, before;
	int r;

	(void)sigemptyset(&changes);
	(void)sigaddset(&changes, SIGCONT);
	(void)sigaddset(&changes, SIGWINCH);
	(void)pthread_sigmask(SIG_BLOCK, &changes, &before);
	if (has_changed)
		take_back_terminal(p->el);
	r = ppoll(fds, n, NULL, &before);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* The next byte of stdin: 1, or 0 at its end, or -1 when a signal came first. */
static int read_byte(struct prompt *p, char *ret)
{
	for (;;) {
		struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0},
		                       {cancel_fd(p->cancel), POLLIN, 0}};
		ssize_t n;

		if (wait_for_any(p, fds, ARRAY_SIZE(fds)) < 0)
			continue;
		if (fds[1].revents) {
			cancel_clear(p->cancel);
			p->was_cancelled = true;
			errno = EINTR;
			return -1;
		}
		n = read(STDIN_FILENO, ret, 1);
		if (n < 0 && errno == EINTR)
			continue;
		/* A Ctrl-D that was typed while code ran: the kernel keeps it as NUL. */
		if (n > 0 && *ret == '\0')
			*ret = CTRL_D;
		return n > 0 ? 1 : 0;
	}
}

/* A character; bytes that make none are left away. */
static int read_char(EditLine *el, wchar_t *ret)
{
	struct prompt *p = prompt_of(el);
	mbstate_t state = {0};

	for (;;) {
		size_t n;
		char byte;
		int r = read_byte(p, &byte);

		if (r <= 0)
			return r;
		n = mbrtowc(ret, &byte, 1, &state);
		if (n == (size_t)-1)
			state = (mbstate_t){0};
		else if (n != (size_t)-2)
			return 1;
	}
}

void prompt_set_words(struct prompt *p, const char *indent, prompt_words_fn fn, void *arg)
{
	p->indent = indent;
	p->words = fn;
	p->words_arg = arg;
}

/* How many bytes all lines have in common at their beginning, in whole characters. */
static size_t shared_length(const char *words)
{
	size_t shared = strcspn(words, "\n");

	for (const char *at = words; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		size_t same = 0;

		while (same < shared && at[same] == words[same])
			same++;
		shared = same;
	}
	while (shared > 0 && (words[shared] & 0xc0) == 0x80)
		shared--;
	return shared;
}

/* Below the line that is being typed, which is drawn anew behind them. */
static void show_words(const char *words)
{
	(void)fputc('\n', stderr);
	for (const char *at = words; *at; at += strcspn(at, "\n"), at += *at == '\n')
		(void)fprintf(stderr, "%.*s  ", (int)strcspn(at, "\n"), at);
	(void)fputc('\n', stderr);
	(void)fflush(stderr);
}

static unsigned char on_tab(EditLine *el, int ch)
{
	struct prompt *p = prompt_of(el);
	const LineInfo *line = el_line(el);
	auto_free char *text = xstrndup(line->buffer, (size_t)(line->cursor - line->buffer));
	auto_free char *words = NULL, *rest = NULL;
	size_t len = 0, shared;

	(void)ch;
	if (text[strspn(text, " \t")] == '\0')
		return el_insertstr(el, p->indent ? p->indent : "\t") < 0 ? CC_ERROR : CC_REFRESH;
	words = p->words ? p->words(p->words_arg, text, &len) : NULL;
	if (!words || !*words)
		return CC_REFRESH_BEEP;
	shared = shared_length(words);
	if (shared > len) {
		rest = xstrndup(words + len, shared - len);
		return el_insertstr(el, rest) < 0 ? CC_ERROR : CC_REFRESH;
	}
	if (words[strcspn(words, "\n")] == '\0')
		return CC_REFRESH; /* the only one, and it stands there */
	show_words(words);
	return CC_REDISPLAY;
}

static void add_to_history(void *arg, const char *line)
{
	struct prompt *p = arg;
	HistEvent event;

	(void)history(p->history, &event, H_ENTER, line);
}

static void set_locale(void)
{
	/* Text is UTF-8 everywhere in cloche, also where the user's locale says nothing. */
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_CTYPE, "C.UTF-8");
}

int prompt_open(struct cancel *cancel, struct prompt **ret, struct err *err)
{
	auto_call(prompt_closep) struct prompt *p = xnew0(struct prompt);
	HistEvent event;

	set_locale();
	watch_changes();
	p->cancel = cancel;
	p->prompt_history.fd = -1;
	p->el = el_init("cloche", stdin, isatty(STDOUT_FILENO) ? stdout : stderr, stderr);
	p->history = history_init();
	if (!p->el || !p->history)
		return err_set(err, ERR_INTERNAL, 0, "cannot set up the terminal");
	(void)history(p->history, &event, H_SETSIZE, PROMPT_HISTORY_LINES);
	(void)history(p->history, &event, H_SETUNIQUE, 1);
	(void)el_set(p->el, EL_CLIENTDATA, p);
	(void)el_set(p->el, EL_EDITOR, "emacs");
	(void)el_set(p->el, EL_HIST, history, p->history);
	(void)el_set(p->el, EL_PROMPT, give_lead);
	(void)el_set(p->el, EL_GETCFN, read_char);
	(void)el_set(p->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	(void)el_set(p->el, EL_ADDFN, "cloche-words", "Complete the word", on_tab);
	(void)el_set(p->el, EL_BIND, "^I", "cloche-words", NULL);
	(void)el_source(p->el, NULL);
	prompt_history_open(&p->prompt_history, add_to_history, p);
	*ret = take_ptr(p);
	return 0;
}

void prompt_close(struct prompt *p)
{
	if (!p)
		return;
	prompt_history_close(&p->prompt_history);
	if (p->history)
		history_end(p->history);
	if (p->el)
		el_end(p->el);
	free(p);
}

int prompt_read(struct prompt *p, const char *lead, char **ret)
{
	const char *line;
	int len = 0;

	p->lead = lead;
	p->was_cancelled = false;
	(void)el_set(p->el, EL_PREP_TERM, 1); /* before the prompt shows that keys are awaited */
	line = el_gets(p->el, &len);
	if (p->was_cancelled)
		return -EINTR;
	if (!line || len <= 0)
		return 0;
	*ret = xstrndup(line, strcspn(line, "\n"));
	if (**ret) {
		add_to_history(p, *ret);
		prompt_history_add(&p->prompt_history, *ret);
	}
	return 1;
}
