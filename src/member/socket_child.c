// SPDX-License-Identifier: Apache-2.0
#include "member/socket_child.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int socket_child_fork(const char *what, int *ret_fd, struct err *err)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	pid = fork();
	if (pid < 0) {
		(void)err_set(err, ERR_INTERNAL, errno, "cannot start %s", what);
		(void)close(fds[0]);
		(void)close(fds[1]);
		return -EAGAIN;
	}
	if (pid == 0) {
		(void)dup3(fds[1], STDIN_FILENO, 0);
		(void)close_range(STDERR_FILENO + 1, ~0U, 0);
		return 1;
	}
	(void)close(fds[1]);
	*ret_fd = fds[0];
	return 0;
}
