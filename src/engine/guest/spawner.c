// SPDX-License-Identifier: Apache-2.0
/*
 * The broker waits for the spawner, but never long: it asks, does the other work of a start, and by
 * then the answer is there. A spawner that does not answer in time is killed, and only that one
 * start fails.
 */
#include "engine/guest/spawner.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/guest/guest.h"
#include "engine/guest/spawner_process.h"
#include "engine/linux/namespaces.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ANSWER_MS 20000 /* normally less than 1 ms; more on a loaded host */

void spawner_init(struct spawner *n, struct guest_host *host)
{
	*n = (struct spawner){.host = host, .fd = -1, .userns_fd = -1};
	list_init(&n->orphans);
}

/* The spawner holds nothing that could be lost, so it is killed and reaped here at any moment. */
static void end_process(struct spawner *n)
{
	close_fd(&n->fd);
	if (!n->child)
		return;
	(void)pidfd_send_signal(loop_child_pidfd(n->child), SIGKILL, NULL, 0);
	(void)waitid(P_PIDFD, (id_t)loop_child_pidfd(n->child), &(siginfo_t){0}, WEXITED);
	loop_child_remove(n->child);
	n->child = NULL;
	spawner_orphan_watch(&n->orphans, n->host->loop, n->pid);
}

void spawner_done(struct spawner *n)
{
	end_process(n);
	spawner_orphan_done(&n->orphans);
	close_fd(&n->userns_fd);
}

static void on_spawner_exit(struct loop *loop, int wait_status, void *arg)
{
	struct spawner *n = arg;

	log_warn("spawner.ended", "wait_status=0x%x", wait_status);
	n->child = NULL;
	close_fd(&n->fd);
	spawner_orphan_watch(&n->orphans, loop, n->pid);
}

static int await_answer(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* Discards a child that cannot be used: its maps were not written, or its fds did not arrive. */
static void discard(const struct spawner_reply *reply, const int *fds, size_t n_fds)
{
	const id_t pid = (id_t)reply->pid;

	if (reply->pid > 0 &&
	    waitid(P_PID, pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0) {
		(void)kill(reply->pid, SIGKILL);
		(void)waitid(P_PID, pid, &(siginfo_t){0}, WEXITED);
	}
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
}

static int receive(struct spawner *n, struct hatched *ret)
{
	struct spawner_reply reply = {0};
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	ssize_t len = await_answer(n->fd);

	if (len == 0)
		len = fd_recv(n->fd, &reply, sizeof(reply), fds, &n_fds);
	if (reply.helper > 0)
		(void)waitid(P_PID, (id_t)reply.helper, &(siginfo_t){0}, WEXITED);
	if (len != sizeof(reply) || reply.errnum != 0) {
		discard(&reply, fds, n_fds);
		return len < 0 ? (int)len : len != sizeof(reply) ? -EPIPE : -reply.errnum;
	}
	*ret = (struct hatched){.pid = reply.pid,
	                        .pidfd = n_fds > 0 ? fds[0] : -1,
	                        .socket_fd = n_fds > 1 ? fds[1] : -1};
	return 0;
}

static int open_userns(pid_t pid)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The new process has entered a new user namespace, which is T; this writes its maps. */
static int map_userns(struct spawner *n, int fd, pid_t pid, struct err *err)
{
	char byte;
	int r = await_answer(fd);

	if (r == 0 && recv(fd, &byte, 1, 0) != 1)
		r = -EPIPE;
	if (r < 0)
		return err_set(err, ERR_UNSUPPORTED, -r, "cannot make a user namespace");
	r = namespaces_write_spawner_maps(pid, err);
	if (r < 0)
		return r;
	n->userns_fd = open_userns(pid);
	if (n->userns_fd < 0 || send(fd, "m", 1, MSG_NOSIGNAL) != 1)
		return err_set(err, ERR_INTERNAL, errno, "cannot tell who makes the namespace");
	return 0;
}

/* Makes T by a process that ends when T exists. */
static int make_userns(struct spawner *n, struct err *err)
{
	int pair[2], pidfd = -1, r;
	pid_t pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	r = starter_ask(n->host->starter, HOST_JOB_NAMESPACE,
	                &(struct starter_order){.fds = &pair[1], .n_fds = 1}, &pid, &pidfd);
	(void)close(pair[1]);
	r = r < 0 ? err_set(err, ERR_CAPACITY, -r, "cannot start a process")
	          : map_userns(n, pair[0], pid, err);
	(void)close(pair[0]); /* it ends by that, whatever it waits for */
	close_fd(&pidfd);
	if (pid > 0)
		(void)waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED);
	return r;
}

static int settle(struct spawner *n, struct err *err)
{
	struct hatched nothing;
	int r = receive(n, &nothing);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the spawner does not serve") : 0;
}

int spawner_need(struct spawner *n, struct err *err)
{
	int pair[2], pidfd = -1, r;
	pid_t pid = -1;

	if (n->fd >= 0)
		return 0;
	end_process(n);
	r = n->userns_fd < 0 ? make_userns(n, err) : 0;
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	r = starter_ask(n->host->starter, HOST_JOB_SPAWNER,
	                &(struct starter_order){.fds = (int[]){pair[1], n->userns_fd}, .n_fds = 2},
	                &pid, &pidfd);
	(void)close(pair[1]);
	n->fd = pair[0];
	n->pid = pid;
	if (r < 0)
		r = err_set(err, ERR_CAPACITY, -r, "cannot start the spawner");
	else
		r = loop_child_take(n->host->loop, pidfd, on_spawner_exit, n, &n->child);
	if (pid > 0 && r < 0)
		(void)err_set(err, ERR_INTERNAL, -r, "cannot watch the spawner");
	if (r == 0)
		r = settle(n, err);
	if (r < 0)
		end_process(n);
	return r;
}

void spawner_find(struct spawner *n, pid_t guest)
{
	auto_fd int fd = n->userns_fd < 0 ? open_userns(guest) : -1;
	auto_fd int parent = fd < 0 ? -1 : ioctl(fd, NS_GET_PARENT);
	struct stat theirs, ours;

	if (parent >= 0 && fstat(parent, &theirs) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
	    (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev))
		n->userns_fd = take_fd(&parent);
}

int spawner_ask(struct spawner *n, enum spawner_kind kind, uint32_t slot, int go_fd, int status_fd,
                int group_fd, struct err *err)
{
	const struct spawner_request req = {.kind = (uint32_t)kind, .slot = slot};
	const int fds[] = {go_fd, status_fd, group_fd};
	int r = spawner_need(n, err);
	ssize_t len;

	if (r < 0)
		return r;
	len = fd_send(n->fd, &req, sizeof(req), fds, group_fd < 0 ? 2 : 3);
	if (len < 0) { /* it died, and the loop has not told yet */
		end_process(n);
		r = spawner_need(n, err);
		if (r < 0)
			return r;
		len = fd_send(n->fd, &req, sizeof(req), fds, group_fd < 0 ? 2 : 3);
	}
	return len < 0 ? err_set(err, ERR_INTERNAL, (int)-len, "cannot ask the spawner") : 0;
}

int spawner_take(struct spawner *n, struct hatched *ret, struct err *err)
{
	int r = receive(n, ret);

	if (r == -ETIMEDOUT || r == -EPIPE || r == -ECONNRESET)
		end_process(n); /* else its answer would be taken for the next one's */
	return r < 0 ? err_set(err, ERR_CAPACITY, -r, "cannot start the jail's process") : 0;
}
