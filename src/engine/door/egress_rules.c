// SPDX-License-Identifier: Apache-2.0
/*
 * As `nft list ruleset` shows it, for IPv4 (IPv6 has the same lines with ::1):
 *
 *	table inet cloche {
 *		chain inside {
 *			type filter hook output priority raw; policy accept;
 *			meta nfproto ipv4 tcp sport TCP accept
 *			meta nfproto ipv4 tcp dport TCP accept
 *			meta nfproto ipv4 udp sport DNS accept
 *			meta nfproto ipv4 udp dport DNS accept
 *			meta nfproto ipv4 tcp dport 53 accept
 *			meta nfproto ipv4 udp dport 53 accept
 *			ip daddr 127.0.0.0/8 notrack
 *		}
 *		chain door {
 *			type nat hook output priority -100; policy accept;
 *			meta nfproto ipv4 tcp dport 53 redirect to :TCP
 *			meta nfproto ipv4 udp dport 53 redirect to :DNS
 *			ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :TCP
 *		}
 *		chain rest {
 *			type filter hook output priority filter; policy drop;
 *			ct state new limit rate over 250/second burst 1000 packets drop
 *			ip daddr 127.0.0.0/8 accept
 *			ct state established,related accept
 *		}
 *	}
 *
 * Redirected packets have a loopback address when they reach `rest`. A dropped packet fails with
 * EPERM in the sender's call. Only UDP and other protocols are dropped there, since TCP was
 * redirected.
 *
 * `inside` keeps the sandbox's own traffic out of connection tracking: that costs less, and no
 * memory limit counts the kernel's memory for tracked flows. The limit on new flows is there for
 * the same reason; the kernel retries a TCP connection over it a second later. Connections to the
 * door's own port are tracked, so that the listener sees itself as the destination.
 */
#include "engine/door/egress_rules.h"

#include "engine/linux/nft.h"

#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <unistd.h>

#define NEW_A_SECOND 250
#define NEW_AT_ONCE  1000
#define PORT_DNS     53

static const struct family {
	uint8_t nfproto;
	enum door_socket tcp, dns;
	uint32_t daddr_offset; /* in its header */
	uint32_t loopback_len; /* 127/8 is one byte, ::1 all sixteen */
	unsigned char loopback[16];
} families[] = {
	{NFPROTO_IPV4, DOOR_TCP4, DOOR_DNS4, 16, 1, {127}},
	{NFPROTO_IPV6, DOOR_TCP6, DOOR_DNS6, 24, 16, {[15] = 1}},
};

static void match_family(struct nft *r, const struct family *f)
{
	nft_match_meta(r, NFT_META_NFPROTO, f->nfproto);
}

static void match_loopback(struct nft *r, const struct family *f, enum nft_cmp_ops op)
{
	nft_load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr_offset, f->loopback_len);
	nft_compare(r, op, f->loopback, f->loopback_len);
}

static void port_rule(struct nft *r, const char *chain_name, const struct family *f,
                      uint8_t protocol, uint32_t offset, uint16_t port, uint16_t to)
{
	nft_rule(r, chain_name);
	match_family(r, f);
	nft_match_port(r, protocol, offset, port);
	if (to != 0)
		nft_redirect(r, to);
	else
		nft_verdict(r, NF_ACCEPT);
	nft_rule_end(r);
}

static void inside_rules(struct nft *r, const struct family *f, uint16_t tcp, uint16_t dns)
{
	port_rule(r, "inside", f, IPPROTO_TCP, NFT_SPORT, tcp, 0);
	port_rule(r, "inside", f, IPPROTO_TCP, NFT_DPORT, tcp, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, NFT_SPORT, dns, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, NFT_DPORT, dns, 0);
	port_rule(r, "inside", f, IPPROTO_TCP, NFT_DPORT, PORT_DNS, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, NFT_DPORT, PORT_DNS, 0);
	nft_rule(r, "inside");
	match_family(r, f);
	match_loopback(r, f, NFT_CMP_EQ);
	nft_notrack(r);
	nft_rule_end(r);
}

static void door_rules(struct nft *r, const struct family *f, uint16_t tcp, uint16_t dns)
{
	port_rule(r, "door", f, IPPROTO_TCP, NFT_DPORT, PORT_DNS, tcp);
	port_rule(r, "door", f, IPPROTO_UDP, NFT_DPORT, PORT_DNS, dns);
	nft_rule(r, "door");
	match_family(r, f);
	match_loopback(r, f, NFT_CMP_NEQ);
	nft_match_meta(r, NFT_META_L4PROTO, IPPROTO_TCP);
	nft_redirect(r, tcp);
	nft_rule_end(r);
}

static void rest_rules(struct nft *r)
{
	nft_rule(r, "rest");
	nft_match_state(r, NFT_STATE_BIT(IP_CT_NEW));
	nft_match_over_limit(r, NEW_A_SECOND, NEW_AT_ONCE);
	nft_verdict(r, NF_DROP);
	nft_rule_end(r);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		nft_rule(r, "rest");
		match_family(r, &families[i]);
		match_loopback(r, &families[i], NFT_CMP_EQ);
		nft_verdict(r, NF_ACCEPT);
		nft_rule_end(r);
	}
	nft_rule(r, "rest");
	nft_match_state(r, NFT_STATE_BIT(IP_CT_ESTABLISHED) | NFT_STATE_BIT(IP_CT_RELATED));
	nft_verdict(r, NF_ACCEPT);
	nft_rule_end(r);
}

/* Removing a table is slow (deferred_close.h), so it is done only if there is one. */
static int install(const uint16_t ports[DOOR_SOCKETS], enum nft_start how, int *ret_fd)
{
	struct nft r = {0};

	nft_begin(&r, how);
	nft_chain(&r, "inside", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_RAW, NF_ACCEPT);
	nft_chain(&r, "door", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST, NF_ACCEPT);
	nft_chain(&r, "rest", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER, NF_DROP);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		const struct family *f = &families[i];

		if (ports[f->tcp] == 0)
			continue;
		inside_rules(&r, f, ports[f->tcp], ports[f->dns]);
		door_rules(&r, f, ports[f->tcp], ports[f->dns]);
	}
	rest_rules(&r);
	return nft_send(&r, ret_fd);
}

int egress_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd)
{
	int r = install(ports, NFT_FIRST, ret_fd);

	if (*ret_fd >= 0)
		(void)close(take_fd(ret_fd)); /* nothing was removed by it */
	return r == -EEXIST ? install(ports, NFT_INSTEAD, ret_fd) : r;
}

int egress_rules_remove(int *ret_fd)
{
	struct nft r = {0};

	nft_begin(&r, NFT_NOTHING);
	return nft_send(&r, ret_fd);
}
