// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/agent_handover.h"

#include "base/fd.h"
#include "proto/frame.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TOKEN_FILE     "quiet"
#define LISTEN_BACKLOG 16

/* A socket of the guest's net namespace: no socket of the host's may be inside. */
static int open_inside(struct guest_host *host, int pidfd, int type)
{
	int fd, errnum;

	if (setns(pidfd, CLONE_NEWNET) < 0)
		return -errno;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	errnum = errno;
	if (setns(host->net_fd, CLONE_NEWNET) < 0)
		abort();
	return fd < 0 ? -errnum : fd;
}

/* Takes over the name of an existing listener; connections to that one stay there. */
static int listen_anew(struct guest *g, int pidfd, int *ret_fd)
{
	const struct sockaddr_un addr = guest_agent_address(g);
	auto_fd int fd = open_inside(g->host, pidfd, SOCK_STREAM);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && unlinkat(g->dir_fd, GUEST_AGENT_SOCKET, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	               fchmodat(g->dir_fd, GUEST_AGENT_SOCKET, 0600, 0) < 0 ||
	               listen(fd, LISTEN_BACKLOG) < 0))
		r = -errno;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int send_quiesce(int fd, const unsigned char *token)
{
	auto_call(buf_done) struct buf out = BUF_INIT(256);
	int r = frame_put(&out, FRAME_QUIESCE, 0, 0, token, QUIET_TOKEN_SIZE);

	if (r >= 0 && send(fd, out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
		r = -EPIPE;
	return r;
}

int agent_handover_keep(const struct guest *g, const unsigned char token[QUIET_TOKEN_SIZE])
{
	return fd_replace_file(g->dir_fd, TOKEN_FILE, token, QUIET_TOKEN_SIZE, 0600, false);
}

int agent_handover_ask(struct guest *g, const unsigned char token[QUIET_TOKEN_SIZE], int *ret_fd,
                       int *ret_listen_fd, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	auto_fd int next = -1;
	int r = fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno
	                                                                                : 0;

	if (r == 0)
		r = agent_handover_keep(g, token);
	if (r == 0)
		r = listen_anew(g, loop_child_pidfd(g->child), &next);
	if (r == 0)
		r = send_quiesce(fd, token);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "cannot ask the agent to be quiet");
	*ret_fd = take_fd(&fd);
	*ret_listen_fd = take_fd(&next);
	return 0;
}

static int send_renewal(int sock, const struct quiet_renewal *renewal, const int *fds, size_t n)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(QUIET_NAME));
	ssize_t sent;

	memcpy(addr.sun_path + 1, QUIET_NAME, sizeof(QUIET_NAME) - 1);
	if (connect(sock, (const struct sockaddr *)&addr, len) < 0)
		return -errno;
	sent = fd_send(sock, renewal, sizeof(*renewal), fds, n);
	return sent < 0 ? (int)sent : 0;
}

int agent_handover_end(struct guest *g, int pidfd, const unsigned char token[QUIET_TOKEN_SIZE],
                       int listen_fd, int status_fd, struct err *err)
{
	struct quiet_renewal renewal = {.open_files = g->spec.limits.open_files};
	auto_fd int sock = open_inside(g->host, pidfd, SOCK_DGRAM);
	auto_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int fds[QUIET_CGROUP_FDS + CGROUP_TREES_MAX] = {listen_fd,
	                                                status_fd < 0 ? null : status_fd};
	int n = cgroup_open_user(&g->host->cgroups, g->spec.id, fds + QUIET_CGROUP_FDS, err);
	int r = sock < 0 ? sock : null < 0 ? -errno : 0;

	if (n < 0)
		return n;
	memcpy(renewal.token, token, sizeof(renewal.token));
	if (r == 0)
		r = send_renewal(sock, &renewal, fds, QUIET_CGROUP_FDS + (size_t)n);
	for (int i = 0; i < n; i++)
		(void)close(fds[QUIET_CGROUP_FDS + i]);
	return r < 0 ? err_set(err, ERR_UNAVAILABLE, -r, "cannot give the agent hold of the host")
	             : 0;
}

void agent_handover_forget(struct guest *g)
{
	(void)unlinkat(g->dir_fd, TOKEN_FILE, 0);
}

int agent_handover_recover(struct guest *g, struct err *err)
{
	unsigned char token[QUIET_TOKEN_SIZE];
	auto_fd int file = openat(g->dir_fd, TOKEN_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int listen_fd = -1;
	const int pidfd = loop_child_pidfd(g->child);
	int r = file < 0 ? -errno : fd_read_all(file, token, sizeof(token));

	if (r == 0)
		r = listen_anew(g, pidfd, &listen_fd);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the agent does not answer");
	return agent_handover_end(g, pidfd, token, listen_fd, -1, err);
}
