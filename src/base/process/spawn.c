// SPDX-License-Identifier: Apache-2.0
#include "base/process/spawn.h"

#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

/* What the program said last, without its newline. */
static void keep_last_line(char *text, size_t len)
{
	char *start;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	start = strrchr(text, '\n');
	if (start)
		memmove(text, start + 1, strlen(start + 1) + 1);
}

static int run(const char *const argv[], int stderr_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r;

	(void)posix_spawn_file_actions_init(&actions);
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY,
		                                     0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
	if (r == 0)
		r = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)unconst(argv),
		                 environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int spawn_run(const char *const argv[], struct err *err)
{
	int pipe_fds[2];
	char said[1024];
	size_t len = 0;
	int status;
	pid_t pid;
	int r;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe for '%s'", argv[0]);
	r = run(argv, pipe_fds[1], &pid);
	(void)close(pipe_fds[1]);
	if (r < 0) {
		(void)close(pipe_fds[0]);
		return err_set(err, ERR_INTERNAL, -r, "cannot run '%s'", argv[0]);
	}
	for (;;) {
		ssize_t n = read(pipe_fds[0], said + len, sizeof(said) - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		if (len == sizeof(said) - 1) { /* keep the newer half */
			len /= 2;
			memmove(said, said + sizeof(said) - 1 - len, len);
		}
	}
	(void)close(pipe_fds[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(err, ERR_INTERNAL, errno, "cannot wait for '%s'", argv[0]);
	keep_last_line(said, len);
	if (WIFSIGNALED(status))
		return err_set(err, ERR_INTERNAL, 0, "'%s' was killed by signal %d: %s", argv[0],
		               WTERMSIG(status), said);
	if (WEXITSTATUS(status) != 0)
		return err_set(err, ERR_INTERNAL, 0, "'%s' exited with %d: %s", argv[0],
		               WEXITSTATUS(status), said);
	return 0;
}
