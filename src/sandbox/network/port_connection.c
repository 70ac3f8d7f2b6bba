// SPDX-License-Identifier: Apache-2.0
/*
 * The broker dials a line, in the sandbox's net namespace: 127.0.0.1 first, then ::1 if that is
 * refused, since a server may listen on either. The gateway itself cannot make sockets. A vm's
 * ports are in no namespace of the host, so its agent dials (port_via_agent.h).
 *
 *	asked (broker) --> connecting (fd is watched) --> open (the fd is the owner's)
 *	asked (agent) --------------------------------------^
 *	any --> cut (told once) --> closed by its owner
 *
 * The timer is for the connect, and then for the expiry of its token.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/port_via_agent.h"
#include "sandbox/network/ports.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define CONNECT_US UINT64_C(10000000)

struct port_connection {
	struct sandbox *s; /* NULL: cut */
	struct list link;  /* in the sandbox */
	struct loop *loop;
	struct broker_client *broker;
	const struct port_connection_ops *ops;
	void *arg;
	uint16_t number;
	bool is_open;
	int family;
	uint64_t ask;                 /* at the broker */
	struct port_via_agent *relay; /* or at the agent */
	int fd;                       /* while it connects */
	struct loop_io *io;
	struct loop_timer *timer;
};

/* Ends all pending requests of it. */
static void settle(struct port_connection *l)
{
	broker_client_cancel(l->broker, l->ask);
	l->ask = 0;
	port_via_agent_cancel(take_ptr(l->relay));
	loop_io_removep(&l->io);
	loop_timer_set(l->timer, UINT64_MAX);
}

static void cut(struct port_connection *l, const struct err *err)
{
	settle(l);
	if (!l->s)
		return;
	l->s->n_port_connections--;
	l->s = NULL;
	list_remove(&l->link);
	l->ops->on_cut(err, l->arg);
}

static int dial(struct port_connection *l, int family, struct err *err);

static void fail(struct port_connection *l, int errnum)
{
	struct err err;

	if (l->family == AF_INET && dial(l, AF_INET6, &err) == 0)
		return;
	(void)err_set(&err, ERR_UNAVAILABLE, errnum, "nothing listens on port %u of the sandbox",
	              l->number);
	cut(l, &err);
}

static void on_opened(struct port_connection *l)
{
	uint64_t now_us = clock_wall_us(), until_us = port_expires_us(l->s, l->number);

	if (l->ops->is_by_token && until_us > 0)
		loop_timer_set_in(l->timer, until_us > now_us ? until_us - now_us : 0);
	l->is_open = true;
	l->ops->on_open(take_fd(&l->fd), l->arg);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct port_connection *l = arg;
	socklen_t len = sizeof(int);
	int errnum = 0;

	(void)loop;
	(void)events;
	if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	settle(l);
	if (errnum == 0) {
		on_opened(l);
		return;
	}
	(void)close(take_fd(&l->fd));
	fail(l, errnum);
}

static void on_dialled(const struct msg_reply *reply, int *fds, void *arg)
{
	struct port_connection *l = arg;
	int r;

	l->ask = 0;
	l->fd = take_fd(&fds[0]);
	if (reply->err.code != ERR_NONE || l->fd < 0) {
		if (reply->err.errnum == ECONNREFUSED)
			fail(l, ECONNREFUSED);
		else
			cut(l, &reply->err);
		return;
	}
	r = loop_io_add(l->loop, l->fd, EPOLLOUT, on_io, l, &l->io);
	if (r < 0)
		fail(l, -r);
}

static void on_relayed(int fd, const struct err *err, void *arg)
{
	struct port_connection *l = arg;

	l->relay = NULL;
	settle(l);
	l->fd = fd;
	if (!err)
		on_opened(l);
	else if (err->errnum == ECONNREFUSED)
		fail(l, ECONNREFUSED);
	else
		cut(l, err);
}

static void on_timeout(struct loop *loop, void *arg)
{
	struct port_connection *l = arg;
	struct err err;

	(void)loop;
	if (!l->is_open) {
		fail(l, ETIMEDOUT);
		return;
	}
	(void)err_set(&err, ERR_GONE, 0, "the link to the port has expired");
	cut(l, &err);
}

static int dial(struct port_connection *l, int family, struct err *err)
{
	struct msg_request req = {.op = MSG_DIAL};

	settle(l);
	if (l->fd >= 0)
		(void)close(take_fd(&l->fd));
	l->family = family;
	if (!engine_find(l->s->engine)->dial) {
		loop_timer_set_in(l->timer, CONNECT_US);
		return port_via_agent_open(l->s, family, l->number, on_relayed, l, &l->relay, err);
	}
	(void)snprintf(req.id, sizeof(req.id), "%s", l->s->id);
	req.dial.family = (uint32_t)family;
	req.dial.port = l->number;
	loop_timer_set_in(l->timer, CONNECT_US);
	return broker_client_ask_fds(l->broker, NULL, &req, on_dialled, l, &l->ask, err);
}

int port_connection_open(struct sandbox *s, uint16_t number, const struct port_connection_ops *ops,
                         void *arg, struct port_connection **ret, struct err *err)
{
	struct port_connection *l;
	int r;

	if (s->state != SANDBOX_RUNNING)
		return err_set(err, sandbox_is_alive(s) ? ERR_CONFLICT : ERR_GONE, 0,
		               "sandbox %s is %s, not running", s->id,
		               sandbox_state_name(s->state));
	if (s->n_port_connections >= PORT_CONNECTIONS_MAX)
		return err_set(err, ERR_LIMIT, 0,
		               "%d connections to ports of this sandbox are open",
		               PORT_CONNECTIONS_MAX);
	l = xnew0(struct port_connection);
	*l = (struct port_connection){.s = s,
	                              .loop = s->fleet->config.loop,
	                              .broker = s->fleet->broker,
	                              .ops = ops,
	                              .arg = arg,
	                              .number = number,
	                              .fd = -1};
	l->timer = loop_timer_new(l->loop, on_timeout, l);
	list_append(&s->port_connections, &l->link);
	s->n_port_connections++;
	sandbox_touch(s);
	r = dial(l, AF_INET, err);
	if (r < 0)
		port_connection_close(l);
	else
		*ret = l;
	return r;
}

void port_connection_count(struct port_connection *l, uint64_t in_bytes, uint64_t out_bytes)
{
	if (!l->s)
		return;
	sandbox_touch(l->s);
	sandbox_count_network(l->s, in_bytes, out_bytes);
}

static void free_line(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void port_connection_close(struct port_connection *l)
{
	if (!l)
		return;
	settle(l);
	loop_timer_free(take_ptr(l->timer));
	if (l->fd >= 0)
		(void)close(take_fd(&l->fd));
	if (l->s) {
		l->s->n_port_connections--;
		list_remove(&l->link);
	}
	l->s = NULL;
	loop_defer(l->loop, free_line, l); /* it may be on the stack */
}

void port_connection_cut_visits(struct sandbox *s, uint16_t number)
{
	struct err err;

	(void)err_set(&err, ERR_GONE, 0, "there is a new link to the port");
	list_for_each (&s->port_connections, struct port_connection, l, link)
		if (l->number == number && l->ops->is_by_token)
			cut(l, &err);
}

void port_connection_cut_all(struct sandbox *s, uint16_t number)
{
	struct err err;

	(void)err_set(&err, ERR_GONE, 0, "%s",
	              number ? "the port was closed" : "the sandbox has ended");
	list_for_each (&s->port_connections, struct port_connection, l, link)
		if (number == 0 || l->number == number)
			cut(l, &err);
}
