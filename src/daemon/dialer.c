// SPDX-License-Identifier: Apache-2.0
/*
 * The dialer process: it makes the gateway's outgoing connections. It holds no secret, runs as
 * nobody (uid 65534) and reads no byte of what is sent. Each call is a child, which resolves the
 * name, checks that every address is allowed, connects to the first that answers and sends the
 * socket to the gateway. If a resolver hangs or is exploited by a hostile answer, only that child
 * is lost. The name is resolved once, so the address that was checked is the one that is dialled.
 */
#include "base/fd.h"
#include "daemon/child.h"
#include "daemon/confine/confine.h"
#include "daemon/dial_rules.h"
#include "net/match/range.h"
#include "outgoing/dial_msg.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#define CALLS_MAX  16
#define CALL_S     10 /* name and connection together */
#define CONNECT_MS 4000
#define OWN_MAX    64
#define NOBODY     65534

struct dial_call {
	struct dialer_process *p;
	uint64_t tag; /* 0 = free */
};

struct dialer_process {
	struct loop *loop;
	int link_fd;
	struct loop_io *io;
	struct dial_rules rules;
	struct dial_call calls[CALLS_MAX];
};

static void reply(int link_fd, uint64_t tag, int fd, const char *why)
{
	struct dial_reply r = {.tag = tag, .is_open = fd >= 0};

	(void)snprintf(r.message, sizeof(r.message), "%s", why);
	(void)!fd_send(link_fd, &r, sizeof(r), &fd, fd >= 0);
}

static bool read_address(const struct sockaddr *sa, struct address *ret)
{
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

		*ret = address_from_v4((const uint8_t *)&in->sin_addr);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

		*ret = address_from_v6(in6->sin6_addr.s6_addr);
		return true;
	}
	return false;
}

/* The host's current addresses; loopback is closed anyway. */
static size_t list_own(struct cidr own[OWN_MAX])
{
	const struct range_site everybody = {0};
	struct ifaddrs *all = NULL;
	size_t n = 0;

	if (getifaddrs(&all) < 0)
		return 0;
	for (const struct ifaddrs *i = all; i && n < OWN_MAX; i = i->ifa_next) {
		struct address a;

		if (i->ifa_addr && read_address(i->ifa_addr, &a) &&
		    range_kind_of(&everybody, &a) != RANGE_LOOPBACK)
			own[n++] = (struct cidr){.first = a, .prefix = a.bits};
	}
	freeifaddrs(all);
	return n;
}

/* A connected, non-blocking socket, or a negative errno. */
static int connect_to(const struct addrinfo *ai)
{
	auto_fd int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t size = sizeof(error);
	const int on = 1;

	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		if (poll(&p, 1, CONNECT_MS) <= 0)
			return -ETIMEDOUT;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0)
			return error ? -error : -EIO;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return take_fd(&fd);
}

/* is_named: by a setting, so that it may lie anywhere. */
static int try_all(const struct dialer_process *p, const struct addrinfo *list, bool is_named,
                   char *why, size_t size)
{
	struct cidr own[OWN_MAX];
	const struct range_site site = {.own = own,
	                                .n_own = list_own(own),
	                                .may_open = p->rules.ranges,
	                                .n_may_open = p->rules.n_ranges};
	int fd = -1;

	for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next) {
		struct address a;

		if (!read_address(ai->ai_addr, &a))
			continue;
		if (!is_named && !range_is_open(&site, &a, p->rules.ranges, p->rules.n_ranges)) {
			(void)snprintf(why, size, "its address is not a public one (%s)",
			               range_kind_name(range_kind_of(&site, &a)));
			continue;
		}
		fd = connect_to(ai);
		if (fd < 0)
			(void)snprintf(why, size, "cannot connect: %s", strerror(-fd));
	}
	return fd;
}

static void dial(const struct dialer_process *p, const struct dial_request *req)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	char port[8], why[DIAL_MESSAGE_SIZE] = "the name has no address";
	int fd = -1;
	int r;

	(void)alarm(CALL_S);
	(void)snprintf(port, sizeof(port), "%u", req->port & 0xffff);
	r = getaddrinfo(req->host, port, &hints, &list);
	if (r != 0)
		(void)snprintf(why, sizeof(why), "cannot resolve the name: %s", gai_strerror(r));
	else
		fd = try_all(p, list,
		             !req->is_tenants &&
		                     dial_rules_name(&p->rules, req->host, req->port & 0xffff),
		             why, sizeof(why));
	reply(p->link_fd, req->tag, fd, fd >= 0 ? "" : why);
}

static void on_child_end(struct loop *loop, int wait_status, void *arg)
{
	struct dial_call *call = arg;

	(void)loop;
	if (wait_status != 0) /* its alarm, or a fault: it has not replied */
		reply(call->p->link_fd, call->tag, -1, "the name or the connection took too long");
	call->tag = 0;
}

static int start(struct dialer_process *p, struct dial_call *call, const struct dial_request *req)
{
	struct loop_child *watch;
	pid_t pid = fork();
	int pidfd;

	if (pid == 0) {
		dial(p, req);
		_exit(0);
	}
	pidfd = pid < 0 ? -1 : pidfd_open(pid, 0);
	if (pidfd < 0)
		return -errno;
	call->tag = req->tag;
	return loop_child_add(p->loop, pidfd, on_child_end, call, &watch);
}

static void on_request(struct dialer_process *p, struct dial_request *req)
{
	if (req->port == 0) {
		reply(p->link_fd, req->tag, -1, "");
		return;
	}
	req->host[sizeof(req->host) - 1] = '\0';
	for (size_t i = 0; i < CALLS_MAX; i++) {
		if (p->calls[i].tag != 0)
			continue;
		if (start(p, &p->calls[i], req) < 0)
			break;
		return;
	}
	reply(p->link_fd, req->tag, -1, "too many connections are being made");
}

static void on_link(struct loop *loop, uint32_t events, void *arg)
{
	struct dialer_process *p = arg;
	struct dial_request req;
	ssize_t n = recv(p->link_fd, &req, sizeof(req), MSG_DONTWAIT);

	(void)events;
	if (n == (ssize_t)sizeof(req))
		on_request(p, &req);
	else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		loop_stop(loop); /* the gateway is gone */
}

int dialer_main(const struct site *site, int link_fd, int control_fd)
{
	const int keep[] = {link_fd, control_fd};
	struct dialer_process p = {.link_fd = link_fd};
	struct err err = {0};
	int r;

	child_begin("dialer", site->config, keep, ARRAY_SIZE(keep));
	child_disregard(SIGTERM); /* it goes when the gateway has gone, not before */
	for (size_t i = 0; i < CALLS_MAX; i++)
		p.calls[i].p = &p;
	r = dial_rules_read(&p.rules, site->config, &err);
	if (r == 0)
		r = confine(&(struct confine_plan){.part = CONFINE_DIALER,
		                                   .uid = NOBODY,
		                                   .gid = NOBODY},
		            &err);
	if (r == 0)
		r = loop_new(&p.loop, &err);
	if (r == 0) {
		r = loop_io_add(p.loop, link_fd, EPOLLIN, on_link, &p, &p.io);
		if (r < 0)
			(void)err_set(&err, ERR_INTERNAL, -r, "cannot watch the gateway");
	}
	child_report(control_fd, r < 0 ? &err : NULL);
	if (r == 0) {
		child_beat(p.loop, &control_fd, site->config);
		r = loop_run(p.loop);
	}
	return r < 0 ? CHILD_FAILED : CHILD_OK;
}
