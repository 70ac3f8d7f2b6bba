// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/ask.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SOCKET  "vmm.sock"
#define BACKLOG 16

struct ask {
	struct guest_host *host;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	ask_fn fn;
	void *arg;
	struct port_usage usage;
};

static struct sockaddr_un address(const struct guest *g)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" SOCKET, g->dir_fd);
	return addr;
}

static void ask_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void ask_end(struct ask *a)
{
	if (!a)
		return;
	loop_io_removep(&a->io);
	loop_timer_free(a->timer);
	(void)close(a->fd);
	loop_defer(a->host->loop, ask_free, a);
}

static void tell(struct ask *a, const struct err *err)
{
	loop_io_removep(&a->io);
	loop_timer_set(a->timer, UINT64_MAX);
	a->fn(err, a->arg);
}

/* It shares QEMU's confinement, and a guest may have taken over QEMU, so the answer's text is
 * bounded and not trusted. */
static void on_answer(struct loop *loop, uint32_t events, void *arg)
{
	struct ask *a = arg;
	struct vmm_answer answer;
	ssize_t n = recv(a->fd, &answer, sizeof(answer), MSG_DONTWAIT);
	struct err err;

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(answer)) {
		(void)err_set(&err, ERR_GONE, ESRCH, "the machine has ended");
		tell(a, &err);
		return;
	}
	answer.err.message[sizeof(answer.err.message) - 1] = '\0';
	if (answer.err.code != ERR_NONE)
		(void)err_set(&err, ERR_INTERNAL, 0, "the machine: %.300s", answer.err.message);
	a->usage = answer.usage;
	tell(a, answer.err.code == ERR_NONE ? NULL : &err);
}

static void on_late(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_TIMEOUT, ETIMEDOUT, "the machine does not answer");
	tell(arg, &err);
}

const struct port_usage *ask_usage(const struct ask *a)
{
	return &a->usage;
}

static int connect_to(const struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a socket");
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_set(err, errno == ENOENT ? ERR_UNSUPPORTED : ERR_UNAVAILABLE, errno,
		               "cannot speak to the machine");
	*ret_fd = take_fd(&fd);
	return 0;
}

int ask_begin(struct guest *g, const struct vmm_ask *ask, int fd, uint64_t within_us, ask_fn fn,
              void *arg, struct ask **ret, struct err *err)
{
	auto_fd int sock = -1;
	struct ask *a;
	ssize_t n;
	int r = connect_to(g, &sock, err);

	if (r < 0)
		return r;
	n = fd_send(sock, ask, sizeof(*ask), &fd, fd >= 0 ? 1 : 0);
	if (n < 0)
		return err_set(err, ERR_UNAVAILABLE, (int)-n, "cannot speak to the machine");
	a = xnew0(struct ask);
	*a = (struct ask){.host = g->host, .fd = sock, .fn = fn, .arg = arg};
	r = loop_io_add(g->host->loop, sock, EPOLLIN, on_answer, a, &a->io);
	if (r < 0) {
		free(a);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch a socket");
	}
	(void)take_fd(&sock);
	a->timer = loop_timer_new(g->host->loop, on_late, a);
	loop_timer_set_in(a->timer, within_us);
	*ret = a;
	return 0;
}

/* A socket of the machine's net namespace, so that it holds nothing of the host's. */
static int open_inside(const struct guest *g)
{
	int fd, errnum;

	if (setns(loop_child_pidfd(g->child), CLONE_NEWNET) < 0)
		return -errno;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	errnum = errno;
	if (setns(g->host->net_fd, CLONE_NEWNET) < 0)
		abort();
	return fd < 0 ? -errnum : fd;
}

int ask_listen(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = address(g);
	auto_fd int fd = open_inside(g);

	if (fd < 0)
		return err_set(err, ERR_CAPACITY, -fd, "cannot make a socket");
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(g->dir_fd, SOCKET, 0600, 0) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the machine's socket");
	*ret_fd = take_fd(&fd);
	return 0;
}
