// SPDX-License-Identifier: Apache-2.0
/*
 *	A --> its addresses in turn --> AAAA --> its addresses in turn --> given up
 *
 * The second question is asked only when the first led nowhere, so a host with IPv4 costs one
 * question.
 */
#include "wall/transport/reach.h"

#include "wall/transport/egress.h"
#include "wall/transport/sockaddr.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#define CONNECT_US    UINT64_C(10000000)
#define ADDRESSES_MAX 8 /* tried of one answer */

struct reach {
	struct reach_want want;
	struct hostname name; /* that is resolved */
	struct host host;     /* that the proxy is told */
	uint16_t port;        /* that is dialled */
	struct egress *egress;
	struct resolver_ask *ask;
	bool is_by_name;
	bool is_second; /* of the two questions */
	struct address addresses[ADDRESSES_MAX];
	size_t n, next;
	struct address tried;
	enum reach_result result; /* so far */
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
};

static void try_next(struct reach *r);

static void drop_socket(struct reach *r)
{
	loop_io_removep(&r->io);
	if (r->fd >= 0)
		(void)close(take_fd(&r->fd));
}

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void reach_cancel(struct reach *r)
{
	if (!r)
		return;
	resolver_cancel(r->ask);
	egress_cancel(r->egress);
	drop_socket(r);
	loop_timer_free(r->timer);
	loop_defer(r->want.loop, on_free, r);
}

static void finish(struct reach *r, int fd)
{
	struct reach_want want = r->want;
	struct address tried = r->tried;
	enum reach_result result = fd >= 0 ? REACH_OK : r->result;

	reach_cancel(r);
	want.done(result, fd, &tried, want.arg);
}

static void on_response(const struct dns_response *response, void *arg)
{
	struct reach *r = arg;

	r->ask = NULL;
	r->n = r->next = 0;
	for (size_t i = 0; response && i < response->n_addresses && r->n < ADDRESSES_MAX; i++) {
		const struct address *a = &response->addresses[i];

		if (r->want.may_dial(a, r->want.arg)) {
			r->addresses[r->n++] = *a;
		} else if (r->result == REACH_NO_ADDRESS) {
			r->result = REACH_DENIED;
			r->tried = *a;
		}
	}
	try_next(r);
}

static void on_let_through(int fd, void *arg)
{
	struct reach *r = arg;

	r->egress = NULL;
	r->result = REACH_REFUSED;
	finish(r, fd);
}

static void on_connected(struct reach *r)
{
	const struct egress_want want = {
		.loop = r->want.loop,
		.fd = r->fd,
		.proxy = r->want.proxy,
		.host = &r->host,
		.port = r->want.port,
		.done = on_let_through,
		.arg = r,
	};

	if (!r->want.proxy) {
		finish(r, take_fd(&r->fd));
		return;
	}
	loop_timer_set(r->timer, UINT64_MAX);
	r->fd = -1;
	r->egress = egress_start(&want);
	if (!r->egress)
		finish(r, -1);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct reach *r = arg;
	int error = 0;
	socklen_t size = sizeof(error);

	(void)loop;
	(void)events;
	if (getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
		loop_io_removep(&r->io);
		on_connected(r);
		return;
	}
	try_next(r);
}

static void on_timer(struct loop *loop, void *arg)
{
	(void)loop;
	try_next(arg);
}

static int dial(struct reach *r, const struct address *a)
{
	struct sockaddr_storage sa;
	socklen_t len = sockaddr_from(&sa, a, r->port);
	const int on = 1;

	r->tried = *a;
	r->result = REACH_FAILED;
	r->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0)
		return -errno;
	(void)setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(r->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (connect(r->fd, (const struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	loop_timer_set_in(r->timer, CONNECT_US);
	return loop_io_add(r->want.loop, r->fd, EPOLLOUT, on_io, r, &r->io);
}

static void try_next(struct reach *r)
{
	do
		drop_socket(r);
	while (r->next < r->n && dial(r, &r->addresses[r->next++]) < 0);
	if (r->io)
		return;
	loop_timer_set(r->timer, UINT64_MAX);
	if (!r->is_by_name || r->is_second) {
		finish(r, -1);
		return;
	}
	r->is_second = true;
	r->ask = resolver_ask(r->want.resolver, &r->name, DNS_AAAA, on_response, r);
}

/* Aims at the host, or at the proxy for it. */
static void aim(struct reach *r)
{
	const struct reach_want *want = &r->want;
	struct host host = {.is_name = want->name != NULL, .address = want->address};

	if (want->name)
		host.name = *want->name;
	r->host = host;
	r->port = want->port;
	if (want->proxy) {
		host = want->proxy->url.host;
		r->port = want->proxy->url.port;
	}
	r->is_by_name = host.is_name;
	r->name = host.name;
	if (host.is_name)
		return;
	if (!want->proxy || want->may_dial(&host.address, want->arg))
		r->addresses[r->n++] = host.address;
	else
		r->result = REACH_DENIED;
}

struct reach *reach_start(const struct reach_want *want)
{
	struct reach *r = xnew0(struct reach);

	*r = (struct reach){.want = *want, .fd = -1};
	r->result = REACH_NO_ADDRESS;
	r->timer = loop_timer_new(want->loop, on_timer, r);
	aim(r);
	if (r->is_by_name) {
		r->ask = resolver_ask(want->resolver, &r->name, DNS_A, on_response, r);
	} else {
		loop_timer_set_in(r->timer, 0);
	}
	return r;
}
