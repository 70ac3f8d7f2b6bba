// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox's net namespace has no link, only `lo`. A door is two default routes to `lo`, rules
 * that redirect what comes there (egress_rules.c), and the host's sockets that receive it. No
 * packet leaves by a route: if no socket of ours receives it, it ends inside.
 *
 * The order keeps the sandbox closed at every moment: first sockets, then rules that lead to them,
 * then routes; and back in reverse. If the broker is killed in between, the door leads nowhere, and
 * the next open replaces all of it. The kernel picks the ports when the sockets are bound, so
 * nobody can occupy them before; and the sockets share them with nobody.
 *
 * Processes inside have no capability over the namespace (it belongs to T, see spawner.h) and
 * cannot see the rules. The broker's thread enters it for one call (egress_door_inside()). If it
 * cannot come back, the broker exits at once, since all its other work must happen on the host.
 */
#include "engine/door/egress_door.h"

#include "base/fd.h"
#include "engine/door/egress_rules.h"
#include "engine/guest/guest.h"
#include "engine/linux/netlink.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 256

static const struct {
	int family, type;
} kinds[DOOR_SOCKETS] = {
	[DOOR_TCP4] = {AF_INET, SOCK_STREAM},
	[DOOR_TCP6] = {AF_INET6, SOCK_STREAM},
	[DOOR_DNS4] = {AF_INET, SOCK_DGRAM},
	[DOOR_DNS6] = {AF_INET6, SOCK_DGRAM},
};

static socklen_t loopback(int family, uint16_t port, union egress_door_address *ret)
{
	*ret = (union egress_door_address){0};
	if (family == AF_INET) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET,
		                               .sin_port = htons(port),
		                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		return sizeof(ret->v4);
	}
	ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
	                                .sin6_port = htons(port),
	                                .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return sizeof(ret->v6);
}

int egress_door_inside(struct guest *g,
                       int (*fn)(struct guest_host *host, void *arg, struct err *err), void *arg,
                       struct err *err)
{
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (setns(loop_child_pidfd(g->child), CLONE_NEWNET) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot enter the sandbox's network");
	r = fn(g->host, arg, err);
	if (setns(g->host->net_fd, CLONE_NEWNET) < 0)
		abort();
	return r;
}

/* If IPv6 is disabled on the host, sandboxes have none either. */
static bool is_family_missing(int family, int errnum)
{
	return family == AF_INET6 && (errnum == EAFNOSUPPORT || errnum == EADDRNOTAVAIL);
}

static int open_socket(int family, int type, egress_door_address_fn address, int *ret_fd,
                       uint16_t *ret_port, struct err *err)
{
	auto_fd int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union egress_door_address addr;
	socklen_t len = address(family, /* port= */ 0, &addr);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && bind(fd, &addr.any, len) < 0)
		r = -errno;
	if (is_family_missing(family, -r))
		return 0;
	if (r == 0 && type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r == 0 && getsockname(fd, &addr.any, &len) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_CAPACITY, -r, "cannot open a socket in the sandbox");
	*ret_port = ntohs(family == AF_INET ? addr.v4.sin_port : addr.v6.sin6_port);
	*ret_fd = take_fd(&fd);
	return 0;
}

int egress_door_open_sockets(egress_door_address_fn address, int ret_fds[DOOR_SOCKETS],
                             uint16_t ret_ports[DOOR_SOCKETS], struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < DOOR_SOCKETS; i++)
		r = open_socket(kinds[i].family, kinds[i].type, address, &ret_fds[i], &ret_ports[i],
		                err);
	return r;
}

/* The source is set, or the kernel would use 0.0.0.0. */
static int route(uint16_t type, uint16_t flags, int family)
{
	struct netlink_talk talk = {0};
	union egress_door_address addr;
	struct nlmsghdr *nlh;
	struct rtmsg *rtm;
	void *extra;

	(void)loopback(family, 0, &addr);
	nlh = netlink_message(&talk, type, flags, sizeof(*rtm), &extra);
	rtm = extra;
	rtm->rtm_family = (unsigned char)family;
	rtm->rtm_table = RT_TABLE_MAIN;
	rtm->rtm_protocol = RTPROT_STATIC;
	rtm->rtm_scope = family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
	rtm->rtm_type = RTN_UNICAST;
	mnl_attr_put_u32(nlh, RTA_OIF, if_nametoindex("lo"));
	if (family == AF_INET)
		mnl_attr_put(nlh, RTA_PREFSRC, sizeof(addr.v4.sin_addr), &addr.v4.sin_addr);
	else
		mnl_attr_put(nlh, RTA_PREFSRC, sizeof(addr.v6.sin6_addr), &addr.v6.sin6_addr);
	netlink_want_answer(&talk);
	return netlink_send(&talk, NETLINK_ROUTE);
}

static int add_route(int family, struct err *err)
{
	int r = route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, family);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot add a route in the sandbox") : 0;
}

int egress_door_check_rules(struct guest_host *host, int r, int fd, struct err *err)
{
	if (fd >= 0)
		deferred_close_add(&host->deferred, host->loop, fd);
	if (r == 0)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, -r, "cannot set the rules of a sandbox's door");
	return err_hint(err, "the kernel needs nf_tables with nat, ct, redir and limit; "
	                     "`cloche doctor` tells");
}

static int open_inside(struct guest_host *host, void *arg, struct err *err)
{
	int *fds = arg, fd, r;
	uint16_t ports[DOOR_SOCKETS] = {0};

	r = egress_door_open_sockets(loopback, fds, ports, err);
	if (r == 0) {
		r = egress_rules_install(ports, &fd);
		r = egress_door_check_rules(host, r, fd, err);
	}
	if (r == 0)
		r = add_route(AF_INET, err);
	if (r == 0 && fds[DOOR_TCP6] >= 0)
		r = add_route(AF_INET6, err);
	return r;
}

int egress_door_open(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err)
{
	int fds[DOOR_SOCKETS] = {-1, -1, -1, -1};
	int r = egress_door_inside(g, open_inside, fds, err);

	if (r == 0)
		memcpy(ret_fds, fds, sizeof(fds));
	for (size_t i = 0; r < 0 && i < DOOR_SOCKETS; i++)
		close_fd(&fds[i]);
	return r;
}

static int close_inside(struct guest_host *host, void *arg, struct err *err)
{
	static const int route_families[] = {AF_INET, AF_INET6};
	int fd, r;

	(void)arg;
	for (size_t i = 0; i < ARRAY_SIZE(route_families); i++) {
		r = route(RTM_DELROUTE, 0, route_families[i]);
		if (r < 0 && r != -ESRCH && !is_family_missing(route_families[i], -r))
			return err_set(err, ERR_INTERNAL, -r, "cannot remove the sandbox's route");
	}
	r = egress_rules_remove(&fd);
	return egress_door_check_rules(host, r, fd, err);
}

int egress_door_close(struct guest *g, struct err *err)
{
	return egress_door_inside(g, close_inside, NULL, err);
}

struct dial {
	int family;
	uint16_t port;
	int fd;
};

static int dial_inside(struct guest_host *host, void *arg, struct err *err)
{
	struct dial *d = arg;
	union egress_door_address addr;
	socklen_t len = loopback(d->family, d->port, &addr);
	auto_fd int fd = socket(d->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)host;
	if (fd < 0 || (connect(fd, &addr.any, len) < 0 && errno != EINPROGRESS))
		return err_set(err, ERR_UNAVAILABLE, errno, "port %u does not answer", d->port);
	d->fd = take_fd(&fd);
	return 0;
}

int egress_door_dial(struct guest *g, int family, uint16_t port, int *ret_fd, struct err *err)
{
	struct dial d = {.family = family, .port = port};
	int r = egress_door_inside(g, dial_inside, &d, err);

	if (r == 0)
		*ret_fd = d.fd;
	return r;
}
