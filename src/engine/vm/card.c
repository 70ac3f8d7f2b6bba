// SPDX-License-Identifier: Apache-2.0
/*
 * Opening makes the tap (unless the machine has it already), the sockets on the host's end of it
 * and the rules; then the card is plugged into the running machine, which gets the tap through
 * cloche-vmm. Only that process holds the tap: it vanishes with the process, and a broker that dies
 * before it was handed over leaves none.
 *
 * Addresses and MAC are the same in every sandbox, since each has its own namespace. To close a
 * door, the card is unplugged first, so that programs inside get an error at once; then sockets and
 * rules are removed.
 */
#include "engine/vm/card.h"

#include "base/log.h"
#include "base/units.h"
#include "engine/door/egress_door.h"
#include "engine/door/egress_rules.h"
#include "engine/linux/netlink.h"
#include "engine/vm/ask.h"
#include "engine/vm/card_rules.h"
#include "engine/vm/kind.h"
#include "vmm/asks.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define TAP         "card"
#define TUN         "/dev/net/tun"
#define PREFIX4     30 /* as in the guest: agent/vm/netif.c */
#define PREFIX6     126
#define PLUG_MAX_US (60 * SECOND_US) /* an emulated kernel on a busy host */
#define PULL_MAX_US (3 * SECOND_US)  /* after that the door is closed anyway */

static const unsigned char gateway4[4] = CARD_GATEWAY4, gateway6[16] = CARD_GATEWAY6;

static socklen_t gateway(int family, uint16_t port, union egress_door_address *ret)
{
	*ret = (union egress_door_address){0};
	if (family == AF_INET) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&ret->v4.sin_addr, gateway4, sizeof(gateway4));
		return sizeof(ret->v4);
	}
	ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&ret->v6.sin6_addr, gateway6, sizeof(gateway6));
	return sizeof(ret->v6);
}

/* -1 where the machine has it. */
static int make_tap(int *ret_fd, struct err *err)
{
	struct ifreq req = {.ifr_name = TAP, .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	auto_fd int fd = open(TUN, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		(void)err_set(err, ERR_UNSUPPORTED, errno, "a vm's network needs " TUN);
		return err_hint(err, "load the kernel's module tun");
	}
	if (ioctl(fd, TUNSETIFF, &req) == 0)
		*ret_fd = take_fd(&fd);
	else if (errno != EBUSY)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a tap");
	return 0;
}

static int add_address(int family, uint8_t prefix, const void *address, size_t len)
{
	struct netlink_talk talk = {0};
	struct nlmsghdr *nlh;
	struct ifaddrmsg *ifa;
	void *extra;

	nlh = netlink_message(&talk, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*ifa),
	                      &extra);
	ifa = extra;
	*ifa = (struct ifaddrmsg){.ifa_family = (uint8_t)family,
	                          .ifa_prefixlen = prefix,
	                          .ifa_index = if_nametoindex(TAP)};
	mnl_attr_put(nlh, IFA_LOCAL, len, address);
	mnl_attr_put(nlh, IFA_ADDRESS, len, address);
	mnl_attr_put_u32(nlh, IFA_FLAGS, IFA_F_NODAD | IFA_F_PERMANENT);
	netlink_want_answer(&talk);
	return netlink_send(&talk, NETLINK_ROUTE);
}

static int set_up(void)
{
	struct netlink_talk talk = {0};
	struct ifinfomsg *info;
	void *extra;

	(void)netlink_message(&talk, RTM_NEWLINK, 0, sizeof(*info), &extra);
	info = extra;
	*info = (struct ifinfomsg){
		.ifi_index = (int)if_nametoindex(TAP), .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
	netlink_want_answer(&talk);
	return netlink_send(&talk, NETLINK_ROUTE);
}

/* If IPv6 is disabled on the host, there is none here either; opening the sockets shows that. */
static int configure(struct err *err)
{
	int r = add_address(AF_INET, PREFIX4, gateway4, sizeof(gateway4));

	if (r == 0)
		(void)!add_address(AF_INET6, PREFIX6, gateway6, sizeof(gateway6));
	if (r == 0)
		r = set_up();
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot set up the tap") : 0;
}

struct opening {
	int *fds;
	int tap_fd;
};

static int open_inside(struct guest_host *host, void *arg, struct err *err)
{
	struct opening *o = arg;
	uint16_t ports[DOOR_SOCKETS] = {0};
	int fd, r = make_tap(&o->tap_fd, err);

	if (r == 0)
		r = configure(err);
	if (r == 0)
		r = egress_door_open_sockets(gateway, o->fds, ports, err);
	if (r < 0)
		return r;
	r = card_rules_install(ports, &fd);
	return egress_door_check_rules(host, r, fd, err);
}

int card_open_door(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err)
{
	int fds[DOOR_SOCKETS] = {-1, -1, -1, -1};
	struct opening o = {.fds = fds, .tap_fd = -1};
	int r = egress_door_inside(g, open_inside, &o, err);

	if (r == 0) {
		memcpy(ret_fds, fds, sizeof(fds));
		vm_own(g)->has_ip6 = fds[DOOR_TCP6] >= 0;
		close_fd(&vm_own(g)->tap_fd);
		vm_own(g)->tap_fd = take_fd(&o.tap_fd);
	}
	for (size_t i = 0; r < 0 && i < DOOR_SOCKETS; i++)
		close_fd(&fds[i]);
	close_fd(&o.tap_fd);
	return r;
}

static int close_inside(struct guest_host *host, void *arg, struct err *err)
{
	int fd, r = egress_rules_remove(&fd);

	(void)arg;
	return egress_door_check_rules(host, r, fd, err);
}

int card_close_door(struct guest *g, struct err *err)
{
	close_fd(&vm_own(g)->tap_fd);
	return egress_door_inside(g, close_inside, NULL, err);
}

struct plugging {
	struct ask *ask;
	guest_plugged_fn fn; /* NULL: nobody waits for it */
	void *arg;
};

static void on_answer(const struct err *err, void *arg)
{
	struct plugging *p = arg;

	ask_end(p->ask);
	if (p->fn)
		p->fn(err, p->arg);
	free(p);
}

static int plug(struct guest *g, bool on, guest_plugged_fn fn, void *arg, struct err *err)
{
	const struct vmm_ask ask = {.kind = on ? VMM_ASK_PLUG : VMM_ASK_PULL,
	                            .has_ip6 = vm_own(g)->has_ip6};
	struct plugging *p = xnew0(struct plugging);
	int r;

	p->fn = fn;
	p->arg = arg;
	r = ask_begin(g, &ask, on ? vm_own(g)->tap_fd : -1, on ? PLUG_MAX_US : PULL_MAX_US,
	              on_answer, p, &p->ask, err);
	close_fd(&vm_own(g)->tap_fd);
	if (r < 0)
		free(p);
	return r;
}

int card_plug(struct guest *g, bool on, guest_plugged_fn fn, void *arg, struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	vm_own(g)->is_unplugged = on && g->is_frozen;
	if (!g->is_frozen)
		return plug(g, on, fn, arg, err);
	fn(NULL, arg); /* it cannot ask for anything before it goes on */
	return 0;
}

void card_go_on(struct guest *g)
{
	struct err err;

	if (!vm_own(g)->is_unplugged)
		return;
	vm_own(g)->is_unplugged = false;
	if (plug(g, true, NULL, NULL, &err) < 0)
		log_warn("vm.not_plugged", "id=%s error='%s'", g->spec.id, err.message);
}
