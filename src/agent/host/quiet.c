// SPDX-License-Identifier: Apache-2.0
/*
 * Anybody inside may send to the socket. A datagram that is not from the one who asked for quiet
 * costs its reading and nothing else; its fds are closed.
 *
 * While it is quiet, a process with the same id and all of its capabilities can trace it. No
 * process inside has them. Whoever saves the agent checks that its namespaces are its own.
 */
#include "agent/host/quiet.h"

#include "agent/host/host_link.h"
#include "agent/process/forks.h"
#include "base/fd.h"
#include "proto/quiet.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

struct quiet {
	struct agent *agent;
	int fd;
	struct loop_io *io;
	bool is_quiet;
	bool is_waiting; /* for children that have not closed the agent's fds yet */
	unsigned char token[QUIET_TOKEN_SIZE];
};

/* No child has anything of the host's: the agent's own part goes last. */
static void be_quiet(struct loop *loop, void *arg)
{
	struct quiet *q = arg;
	struct settings *s = &q->agent->settings;

	(void)loop;
	q->is_waiting = false;
	while (s->n_cgroup_fds > 0)
		(void)close(s->cgroup_fds[--s->n_cgroup_fds]);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	host_link_tell_quiet(q->agent->host_link);
}

static void let_go(struct loop *loop, void *arg)
{
	struct quiet *q = arg;

	(void)loop;
	host_link_quiesce(q->agent->host_link);
	q->is_waiting = true;
	forks_await(q->agent->forks, be_quiet, q);
}

void quiet_begin(struct quiet *q, const unsigned char *token)
{
	memcpy(q->token, token, sizeof(q->token));
	q->is_quiet = true;
	loop_defer(q->agent->loop, let_go, q); /* the connection is in the middle of being read */
}

/* In a time that does not tell how much of it was right. */
static bool is_token(const struct quiet *q, const unsigned char *token)
{
	unsigned char differs = 0;

	for (size_t i = 0; i < sizeof(q->token); i++)
		differs |= (unsigned char)(q->token[i] ^ token[i]);
	return differs == 0;
}

static int take_hold(struct quiet *q, const struct quiet_renewal *renewal, const int *fds, size_t n)
{
	struct settings *s = &q->agent->settings;
	int r;

	if (q->is_waiting) { /* who asked has not waited for it */
		forks_stop_waiting(q->agent->forks);
		be_quiet(q->agent->loop, q);
	}
	s->listen_fd = fds[QUIET_LISTEN_FD];
	r = host_link_listen(q->agent->host_link);
	if (r < 0) {
		s->listen_fd = -1;
		return r;
	}
	for (size_t i = QUIET_CGROUP_FDS; i < n; i++)
		s->cgroup_fds[s->n_cgroup_fds++] = fds[i];
	s->open_files = renewal->open_files;
	q->is_quiet = false;
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	memset(q->token, 0, sizeof(q->token));
	(void)!write(fds[QUIET_READY_FD], "1", 1);
	(void)close(fds[QUIET_READY_FD]);
	return 0;
}

static void quiet_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct quiet *q = arg;
	struct quiet_renewal renewal;
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t len = fd_recv(q->fd, &renewal, sizeof(renewal), fds, &n);

	(void)loop;
	(void)events;
	if (len == (ssize_t)sizeof(renewal) && q->is_quiet && n >= QUIET_CGROUP_FDS &&
	    n <= QUIET_CGROUP_FDS + CGROUP_FDS_MAX && is_token(q, renewal.token) &&
	    take_hold(q, &renewal, fds, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

int quiet_new(struct agent *a, struct quiet **ret, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(QUIET_NAME));
	auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct quiet *q;
	int r;

	memcpy(address.sun_path + 1, QUIET_NAME, sizeof(QUIET_NAME) - 1);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot bind the socket of quiet");
	q = xnew0(struct quiet);
	q->agent = a;
	r = loop_io_add(a->loop, fd, EPOLLIN, quiet_on_io, q, &q->io);
	if (r < 0) {
		free(q);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the socket of quiet");
	}
	q->fd = take_fd(&fd);
	*ret = q;
	return 0;
}
