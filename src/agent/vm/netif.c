// SPDX-License-Identifier: Apache-2.0
/*
 * By the old ioctl()s: they are short, and one address and one route of each family is all there
 * is. What was set before is replaced, so a machine that was copied gets its own.
 */
#include "agent/vm/netif.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CARD    "eth0"
#define MASK4   0xfffffffcU /* 30 bits: two ends and no neighbours */
#define PREFIX6 126

struct address6 { /* as the kernel's struct in6_ifreq, whose header clashes with libc's */
	struct in6_addr address;
	uint32_t prefix;
	int index;
};

static int set_up(int fd, const char *name, bool is_up)
{
	struct ifreq req = {0};

	(void)snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFFLAGS, &req) < 0)
		return -errno;
	if (is_up)
		req.ifr_flags |= IFF_UP;
	else
		req.ifr_flags &= ~IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}

int netif_up(const char *name)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : set_up(fd, name, true);
}

static void set_ip4(struct sockaddr *to, const void *bytes)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	memcpy(&in.sin_addr, bytes, sizeof(in.sin_addr));
	memcpy(to, &in, sizeof(in));
}

static int configure4(int fd, const struct port_setup *s)
{
	const uint32_t mask = htonl(MASK4);
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = unconst(CARD)};
	struct ifreq req = {.ifr_name = CARD};

	set_ip4(&req.ifr_addr, s->ip4.bytes);
	if (ioctl(fd, SIOCSIFADDR, &req) < 0)
		return -errno;
	set_ip4(&req.ifr_netmask, &mask);
	if (ioctl(fd, SIOCSIFNETMASK, &req) < 0)
		return -errno;
	if (!s->gateway4.is_set)
		return 0;
	set_ip4(&route.rt_dst, &(uint32_t){0});
	set_ip4(&route.rt_genmask, &(uint32_t){0});
	set_ip4(&route.rt_gateway, s->gateway4.bytes);
	return ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST ? -errno : 0;
}

static int configure6(const struct port_setup *s)
{
	auto_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int index = (int)if_nametoindex(CARD);
	struct address6 req = {.prefix = PREFIX6, .index = index};
	struct in6_rtmsg route = {
		.rtmsg_flags = RTF_UP | RTF_GATEWAY, .rtmsg_metric = 1, .rtmsg_ifindex = index};

	if (fd < 0)
		return -errno;
	memcpy(&req.address, s->ip6.bytes, sizeof(req.address));
	if (ioctl(fd, SIOCSIFADDR, &req) < 0 && errno != EEXIST)
		return -errno;
	if (!s->gateway6.is_set)
		return 0;
	memcpy(&route.rtmsg_gateway, s->gateway6.bytes, sizeof(route.rtmsg_gateway));
	return ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST ? -errno : 0;
}

bool netif_is_there(void)
{
	return if_nametoindex(CARD) > 0;
}

int netif_configure(const struct port_setup *s, struct err *err)
{
	auto_fd int fd = -1;
	int r;

	if (!s->ip4.is_set && !s->ip6.is_set)
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* Down, it loses all routes, and the addresses of IPv6. */
	r = fd < 0 ? -errno : set_up(fd, CARD, false);
	if (r == 0)
		r = set_up(fd, CARD, true);
	if (r == 0 && s->ip4.is_set)
		r = configure4(fd, s);
	if (r == 0 && s->ip6.is_set)
		r = configure6(s);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot configure " CARD) : 0;
}
