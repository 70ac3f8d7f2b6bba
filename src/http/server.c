// SPDX-License-Identifier: Apache-2.0
/*
 * Listeners and their connections.
 *
 * When fds or connections run out, the longest idle connection is closed for the new one, so that
 * nobody can lock others out by holding idle connections. If none is idle, the new client is
 * accepted with a reserve fd and closed: if it stayed in the queue, it would wake epoll again and
 * again. If even that fails, the server stops accepting for a moment.
 */
#include "http/conn.h"

#include "base/log.h"
#include "base/units.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define ACCEPTS_A_TURN   16
#define REST_US          20000
#define IDLE_AT_LEAST_US 20000 /* a younger one may have a request that was not read yet */
#define RECHECK_US       (SECOND_US / 2)

struct listener {
	struct list link;
	struct http_server *server;
	int fd;
	bool is_unix;
	struct tls_context *tls;
	bool is_tls_optional;
	struct loop_io *io;
};

struct http_server {
	struct loop *loop;
	struct http_app app;
	struct http_limits limits;
	struct list listeners, conns, idle;
	struct list held; /* connections whose reply is held, in order of their numbers */
	size_t n_conns;
	int reserve_fd;
	struct loop_timer *rest_timer; /* accepting again after a rest */
	struct loop_timer *drain_timer;
	struct loop_timer *recheck_timer;
	bool is_rechecking; /* the timer is set: some request is open */
	bool is_draining;
	loop_fn drained;
	void *drained_arg;
};

const struct http_app *server_app(const struct http_server *s)
{
	return &s->app;
}

void server_conn_held(struct http_server *s, struct conn *c)
{
	list_append(&s->held, &c->held_link);
}

void http_server_release(struct http_server *s, uint64_t number, const struct err *err)
{
	struct conn *c;

	while ((c = list_first(&s->held, struct conn, held_link)) && c->held_for <= number)
		conn_release(c, err);
}

struct http_limits *http_server_limits(struct http_server *s)
{
	return &s->limits;
}

bool server_is_draining(const struct http_server *s)
{
	return s->is_draining;
}

void server_request_let_in(struct http_server *s)
{
	if (!s->app.recheck || s->is_rechecking)
		return;
	s->is_rechecking = true;
	loop_timer_set_in(s->recheck_timer, RECHECK_US);
}

/* Returns whether it has a request that is still running. */
static bool recheck(struct http_server *s, struct conn *c)
{
	struct err err = {0};

	if ((c->state != CONN_REQUEST && c->state != CONN_UPGRADED) || !c->req->is_let_in ||
	    c->req->reply == REPLY_ENDED)
		return false;
	if ((c->req->recheck ? c->req->recheck : s->app.recheck)(c->req, &err) == 0)
		return true;
	if (c->state == CONN_UPGRADED) {
		c->is_aborted = true;
		conn_kick(c);
	} else {
		conn_refuse(c, &err);
	}
	return true;
}

static void on_recheck(struct loop *loop, void *arg)
{
	struct http_server *s = arg;
	bool is_open = false;

	(void)loop;
	list_for_each (&s->conns, struct conn, c, link)
		is_open |= recheck(s, c);
	s->is_rechecking = is_open;
	if (is_open)
		loop_timer_set_in(s->recheck_timer, RECHECK_US);
}

static int open_reserve(void)
{
	return eventfd(
		0,
		EFD_CLOEXEC); /* any fd will do; this one needs no path, so it works in a chroot */
}

static void watch_listeners(struct http_server *s, bool on)
{
	list_for_each (&s->listeners, struct listener, l, link)
		loop_io_set(l->io, on ? EPOLLIN : 0);
}

static void rest(struct http_server *s)
{
	watch_listeners(s, false);
	loop_timer_set_in(s->rest_timer, REST_US);
}

static void on_rested(struct loop *loop, void *arg)
{
	struct http_server *s = arg;

	(void)loop;
	if (s->reserve_fd < 0)
		s->reserve_fd = open_reserve();
	watch_listeners(s, true);
}

/* Sends small replies at once, and finds a client that vanished silently within some minutes. */
static void tune_tcp(int fd)
{
	static const struct {
		int level, option, value;
	} rows[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},    {IPPROTO_TCP, TCP_USER_TIMEOUT, 60000},
		{SOL_SOCKET, SO_KEEPALIVE, 1},    {IPPROTO_TCP, TCP_KEEPIDLE, 60},
		{IPPROTO_TCP, TCP_KEEPINTVL, 15}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		(void)setsockopt(fd, rows[i].level, rows[i].option, &rows[i].value,
		                 sizeof(rows[i].value));
}

/* Takes a client out of the queue only to close it. */
static void turn_away(struct http_server *s, struct listener *l)
{
	int fd;

	if (s->reserve_fd >= 0)
		(void)close(take_fd(&s->reserve_fd));
	fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		(void)close(fd);
	s->reserve_fd = open_reserve();
	log_debug("http.connection_refused", "connections=%zu", s->n_conns);
	if (s->reserve_fd < 0)
		rest(s);
}

/* Makes room for the client in the queue. If an idle connection was closed, the next turn
 * accepts. */
static void make_room(struct http_server *s, struct listener *l)
{
	struct conn *c = list_first(&s->idle, struct conn, idle_link);
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	if (poll(&p, 1, 0) <= 0) /* accept() fails without an fd even if no client waits */
		return;
	if (!c)
		turn_away(s, l);
	else if (loop_now_us(s->loop) - c->since_us < IDLE_AT_LEAST_US)
		rest(s);
	else
		conn_cut(c);
}

/* Returns whether to accept more. */
static bool accept_one(struct listener *l)
{
	struct http_server *s = l->server;
	struct err err = {0};
	int fd = -1;

	if (s->n_conns < s->limits.connections)
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	else
		errno = EMFILE;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			make_room(s, l);
		else if (errno == ENOMEM || errno == ENOBUFS)
			rest(s);
		return false;
	}
	if (!l->is_unix)
		tune_tcp(fd);
	if (conn_new(s, s->loop, fd, l->is_unix, l->tls, l->is_tls_optional, &err) < 0)
		log_debug("http.no_connection", "why='%s'", err.message);
	return true;
}

static void listener_on_io(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++)
		if (!accept_one(arg))
			break;
}

void server_conn_added(struct http_server *s, struct conn *c)
{
	list_append(&s->conns, &c->link);
	s->n_conns++;
}

void server_conn_idle(struct http_server *s, struct conn *c)
{
	list_append(&s->idle, &c->idle_link);
}

static void call_drained(struct http_server *s)
{
	loop_fn drained = take_ptr(s->drained);

	loop_timer_set(s->drain_timer, UINT64_MAX);
	if (drained)
		loop_defer(s->loop, drained, s->drained_arg);
}

void server_conn_gone(struct http_server *s, struct conn *c)
{
	list_remove(&c->link);
	s->n_conns--;
	if (s->is_draining && s->n_conns == 0)
		call_drained(s);
}

static void free_listener(struct listener *l)
{
	list_remove(&l->link);
	loop_io_removep(&l->io);
	(void)close(l->fd);
	free(l);
}

static void close_listeners(struct http_server *s)
{
	list_for_each (&s->listeners, struct listener, l, link)
		free_listener(l);
}

static void cut_all(struct http_server *s)
{
	struct conn *c;

	while ((c = list_first(&s->conns, struct conn, link)))
		conn_cut(c);
}

static void on_drain_timer(struct loop *loop, void *arg)
{
	(void)loop;
	cut_all(arg);
}

int http_server_take(struct http_server *s, int fd, uint32_t from, struct err *err)
{
	struct conn *c = list_first(&s->idle, struct conn, idle_link);

	if (s->is_draining || (s->n_conns >= s->limits.connections && !c)) {
		(void)close(fd);
		return err_set(err, ERR_CAPACITY, 0, "there are too many connections");
	}
	if (s->n_conns >= s->limits.connections)
		conn_cut(c);
	return conn_new_hop(s, s->loop, fd, from, err);
}

void http_server_drain(struct http_server *s, uint64_t deadline_us, loop_fn done, void *arg)
{
	s->is_draining = true;
	s->drained = done;
	s->drained_arg = arg;
	loop_timer_set(s->rest_timer, UINT64_MAX);
	close_listeners(s);
	for (struct conn *c; (c = list_first(&s->idle, struct conn, idle_link));)
		conn_cut(c);
	if (s->n_conns == 0)
		call_drained(s);
	else
		loop_timer_set(s->drain_timer, deadline_us);
}

int http_server_new(struct loop *loop, const struct http_app *app, struct http_server **ret,
                    struct err *err)
{
	int reserve_fd = open_reserve();
	struct http_server *s;

	if (reserve_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set an fd aside");
	s = xnew0(struct http_server);
	*s = (struct http_server){
		.loop = loop,
		.app = *app,
		.limits = {.head_us = 10 * SECOND_US,
	                   .body_idle_us = 30 * SECOND_US,
	                   .write_idle_us = 60 * SECOND_US,
	                   .keep_alive_us = 75 * SECOND_US,
	                   .linger_us = 2 * SECOND_US,
	                   .left_us = 300 * SECOND_US,
	                   .connections = 4096},
		.reserve_fd = reserve_fd,
	};
	list_init(&s->listeners);
	list_init(&s->conns);
	list_init(&s->idle);
	list_init(&s->held);
	s->rest_timer = loop_timer_new(loop, on_rested, s);
	s->drain_timer = loop_timer_new(loop, on_drain_timer, s);
	s->recheck_timer = loop_timer_new(loop, on_recheck, s);
	*ret = s;
	return 0;
}

static int serve(struct http_server *s, int listen_fd, struct tls_context *tls,
                 bool is_tls_optional, struct err *err)
{
	struct sockaddr_storage address = {0};
	socklen_t len = sizeof(address);
	struct listener *l;
	int flags = fcntl(listen_fd, F_GETFL);
	int r;

	if (getsockname(listen_fd, (struct sockaddr *)&address, &len) < 0 || flags < 0 ||
	    fcntl(listen_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		r = err_set(err, ERR_INTERNAL, errno, "cannot serve fd %d", listen_fd);
		(void)close(listen_fd);
		return r;
	}
	l = xnew0(struct listener);
	*l = (struct listener){.server = s,
	                       .fd = listen_fd,
	                       .is_unix = address.ss_family == AF_UNIX,
	                       .tls = tls,
	                       .is_tls_optional = is_tls_optional};
	list_init(&l->link);
	r = loop_io_add(s->loop, listen_fd, EPOLLIN, listener_on_io, l, &l->io);
	if (r < 0) {
		free_listener(l);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch fd %d", listen_fd);
	}
	list_append(&s->listeners, &l->link);
	return 0;
}

int http_server_listen(struct http_server *s, int listen_fd, struct tls_context *tls,
                       struct err *err)
{
	return serve(s, listen_fd, tls, /* is_tls_optional= */ false, err);
}

int http_server_listen_both(struct http_server *s, int listen_fd, struct tls_context *tls,
                            struct err *err)
{
	return serve(s, listen_fd, tls, /* is_tls_optional= */ true, err);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	s->drained = NULL;
	close_listeners(s);
	cut_all(s);
	loop_timer_free(s->rest_timer);
	loop_timer_free(s->drain_timer);
	loop_timer_free(s->recheck_timer);
	if (s->reserve_fd >= 0)
		(void)close(s->reserve_fd);
	free(s);
}
