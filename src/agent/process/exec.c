// SPDX-License-Identifier: Apache-2.0
/*
 * Everything here runs in a child that nobody else shares memory with, so it may allocate and never
 * frees. Each failure is told through the report pipe, which a successful execve() closes.
 */
#include "agent/process/exec.h"

#include "agent/process/launch.h"
#include "agent/users/become.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ENVIRONMENT_MAX  (START_ARGS_MAX + 32)
#define ENVIRONMENT_STEP 64 /* room for most: a page not touched is a fault saved in each exec */

static bool is_same_name(const char *a, const char *b)
{
	size_t len = strcspn(a, "=");

	return strncmp(a, b, len) == 0 && b[len] == '=';
}

void environment_put(struct environment *e, const char *word)
{
	for (size_t i = 0; i < e->n; i++) {
		if (is_same_name(e->words[i], word)) {
			free(e->words[i]);
			e->words[i] = xstrdup(word);
			return;
		}
	}
	if (e->n == ENVIRONMENT_MAX)
		return;
	if (e->n % ENVIRONMENT_STEP == 0)
		e->words = xrealloc(e->words, (e->n + ENVIRONMENT_STEP + 1) * sizeof(*e->words));
	e->words[e->n++] = xstrdup(word);
	e->words[e->n] = NULL;
}

void environment_set(struct environment *e, const char *name, const char *value)
{
	auto_free char *word = xasprintf("%s=%s", name, value);

	environment_put(e, word);
}

const char *environment_get(const struct environment *e, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < e->n; i++)
		if (strncmp(e->words[i], name, len) == 0 && e->words[i][len] == '=')
			return e->words[i] + len + 1;
	return NULL;
}

void environment_defaults(struct environment *e, const struct identity *id)
{
	environment_set(e, "PATH", EXEC_PATH);
	environment_set(e, "HOME", id->home);
	if (id->name[0]) {
		environment_set(e, "USER", id->name);
		environment_set(e, "LOGNAME", id->name);
	}
	environment_set(e, "SHELL", id->shell);
	environment_set(e, "LANG", "C.UTF-8");
}

/* As execvp() does for a text without a #! line. */
static void run_script(const char *path, char *const argv[], char *const env[])
{
	size_t n = 0;
	char **words;

	while (argv[n])
		n++;
	words = xnew0n(char *, n + 2);
	words[0] = unconst("/bin/sh");
	words[1] = unconst(path);
	for (size_t i = 1; i < n; i++)
		words[i + 1] = argv[i];
	(void)execve(words[0], words, env);
}

static void try_path(const char *path, char *const argv[], char *const env[])
{
	(void)execve(path, argv, env);
	if (errno == ENOEXEC)
		run_script(path, argv, env);
}

int exec_search(char *const argv[], const struct environment *e, struct err *err)
{
	const char *at = environment_get(e, "PATH");
	int errnum = ENOENT;

	if (strchr(argv[0], '/')) {
		try_path(argv[0], argv, e->words);
		errnum = errno;
		at = NULL;
	}
	while (at) {
		size_t len = strcspn(at, ":");
		/* An empty element is the working directory. */
		auto_free char *path = len ? xasprintf("%.*s/%s", (int)len, at, argv[0])
		                           : xasprintf("./%s", argv[0]);

		try_path(path, argv, e->words);
		if (errno != ENOENT && errno != ENOTDIR)
			errnum = errno;
		if (errnum != ENOENT && errnum != EACCES)
			break;
		at = at[len] ? at + len + 1 : NULL;
	}
	if (errnum == ENOENT) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "argv[0]: no such program '%s'", argv[0]);
		err->errnum = ENOENT;
		return -ENOENT;
	}
	return err_set(err, ERR_INVALID_FIELD, errnum, "argv[0]: cannot run '%s'", argv[0]);
}

/*
 * A magic link of /proc leads wherever another process stands, past every name: refused. This is
 * done as the user, whose permissions decide the rest.
 */
static int enter_cwd(const char *cwd, const struct identity *id, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	                       .resolve = RESOLVE_NO_MAGICLINKS};
	auto_fd int fd = -1;

	if (chdir(id->home) < 0 && chdir("/") < 0)
		return err_set(err, ERR_INVALID_FIELD, errno, "cwd: cannot enter '/'");
	if (cwd[0] == '\0')
		return 0;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, cwd, &how, sizeof(how));
	if (fd < 0 || fchdir(fd) < 0)
		return err_set(err, ERR_INVALID_FIELD, errno, "cwd: cannot enter '%s'", cwd);
	return 0;
}

static int take_session(const struct start *s, const struct identity *id)
{
	if (setsid() < 0)
		return -errno;
	if (!s->has_pty)
		return 0;
	if (ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		return -errno;
	/* Only root may give it away; an agent that is not root already owns it. */
	(void)!fchown(STDIN_FILENO, id->uid, (gid_t)-1);
	(void)fchmod(STDIN_FILENO, 0620);
	return 0;
}

static void build_environment(struct environment *e, const struct start *s,
                              const struct identity *id)
{
	/* First, so that it is found early in /proc/PID/environ, and again last, so that it stays.
	 */
	environment_set(e, "CLOCHE_EXEC", s->tag);
	environment_defaults(e, id);
	if (s->has_pty)
		environment_set(e, "TERM", "xterm-256color");
	for (size_t i = 0; i < s->envc; i++)
		environment_put(e, s->env[i]);
	environment_set(e, "CLOCHE_EXEC", s->tag);
}

void exec_run(const struct settings *settings, const struct start *s)
{
	struct environment e = {0};
	struct identity id;
	struct err err;
	int r;

	r = identity_find(s->user, &id, &err);
	if (r < 0)
		report_failure(&err);
	r = take_session(s, &id);
	if (r < 0) {
		(void)err_set(&err, ERR_INTERNAL, -r, "cannot take the terminal");
		report_failure(&err);
	}
	r = become_user(settings, &id, &err);
	if (r >= 0)
		r = enter_cwd(s->cwd, &id, &err);
	if (r >= 0) {
		build_environment(&e, s, &id);
		(void)exec_search(s->argv, &e, &err);
	}
	report_failure(&err);
}
