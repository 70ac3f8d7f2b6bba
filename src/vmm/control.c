// SPDX-License-Identifier: Apache-2.0
#include "vmm/control.h"

#include "base/fd.h"

#include <sys/epoll.h>
#include <sys/socket.h>

static void hang_up(struct control *c)
{
	const uint32_t kind = c->kind;

	loop_io_removep(&c->io);
	(void)close(take_fd(&c->fd));
	c->kind = 0;
	loop_io_set(c->listen_io, EPOLLIN);
	if (kind)
		c->ops->on_over(kind, c->arg);
}

static void on_connection(struct loop *loop, uint32_t events, void *arg)
{
	struct control *c = arg;
	struct vmm_ask ask;
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(c->fd, &ask, sizeof(ask), fds, &n_fds);

	(void)loop;
	(void)events;
	if (n == -EAGAIN)
		return;
	if (n != sizeof(ask) || c->kind || n_fds > 1) {
		for (size_t i = 0; i < n_fds; i++)
			(void)close(fds[i]);
		hang_up(c);
		return;
	}
	c->kind = ask.kind;
	c->ops->on_ask(&ask, n_fds == 1 ? fds[0] : -1, c->arg);
}

static void on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct control *c = arg;
	int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	if (loop_io_add(loop, fd, EPOLLIN, on_connection, c, &c->io) < 0) {
		(void)close(fd);
		return;
	}
	c->fd = fd;
	loop_io_set(c->listen_io, 0);
}

static void reply(struct control *c, const struct vmm_answer *answer)
{
	if (c->fd >= 0) /* else nobody waits for it any more */
		(void)!send(c->fd, answer, sizeof(*answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void control_answer(struct control *c, const struct err *err)
{
	struct vmm_answer answer = {0};

	if (err)
		answer.err = *err;
	reply(c, &answer);
}

void control_answer_usage(struct control *c, const struct port_usage *usage)
{
	const struct vmm_answer answer = {.usage = *usage};

	if (c->kind == VMM_ASK_USAGE)
		reply(c, &answer);
}

int control_open(struct control *c, struct loop *loop, int listen_fd, const struct control_ops *ops,
                 void *arg, struct err *err)
{
	int r;

	*c = (struct control){
		.ops = ops, .arg = arg, .loop = loop, .listen_fd = listen_fd, .fd = -1};
	r = loop_io_add(loop, listen_fd, EPOLLIN, on_accept, c, &c->listen_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot listen to the broker") : 0;
}
