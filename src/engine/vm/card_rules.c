// SPDX-License-Identifier: Apache-2.0
/*
 * As `nft list ruleset` shows it, for IPv4 (IPv6 has the same lines, and neighbours find each other
 * by ICMPv6):
 *
 *	table inet cloche {
 *		chain door {
 *			type nat hook prerouting priority dstnat; policy accept;
 *			meta nfproto ipv4 tcp dport 53 redirect to :TCP
 *			meta nfproto ipv4 udp dport 53 redirect to :DNS
 *			meta nfproto ipv4 meta l4proto tcp redirect to :TCP
 *		}
 *		chain strangers {
 *			type filter hook prerouting priority filter; policy accept;
 *			ct state new limit rate over 250/second burst 1000 packets drop
 *			meta nfproto ipv6 icmpv6 type 135-136 accept
 *			ip daddr != GATEWAY reject with icmpx admin-prohibited
 *		}
 *		chain rest {
 *			type filter hook input priority filter; policy drop;
 *			meta nfproto ipv6 icmpv6 type 135-136 accept
 *			meta nfproto ipv4 tcp dport TCP accept
 *			meta nfproto ipv4 udp dport DNS accept
 *		}
 *		chain through {
 *			type filter hook forward priority filter; policy drop;
 *		}
 *	}
 *
 * Redirected packets have the gateway's address when they reach `strangers`; all others are UDP or
 * other protocols. The namespace has no link but the card's and `lo`, so there is nowhere to
 * forward to; `through` makes sure of it, whatever the host's settings are.
 */
#include "engine/vm/card_rules.h"

#include "engine/linux/nft.h"
#include "vmm/asks.h"

#include <linux/netfilter_ipv4.h>
#include <unistd.h>

#define NEW_A_SECOND 250 /* as a jail's */
#define NEW_AT_ONCE  1000
#define PORT_DNS     53
#define ND_FIRST     135 /* ICMPv6: neighbour solicitation and advertisement */
#define ND_LAST      136

static const struct family {
	uint8_t nfproto;
	enum door_socket tcp, dns;
	uint32_t daddr_offset, address_len;
	unsigned char gateway[16];
} families[] = {
	{NFPROTO_IPV4, DOOR_TCP4, DOOR_DNS4, 16, 4, CARD_GATEWAY4},
	{NFPROTO_IPV6, DOOR_TCP6, DOOR_DNS6, 24, 16, CARD_GATEWAY6},
};

static void port_rule(struct nft *r, const char *chain, const struct family *f, uint8_t protocol,
                      uint16_t port, uint16_t to)
{
	nft_rule(r, chain);
	nft_match_meta(r, NFT_META_NFPROTO, f->nfproto);
	nft_match_port(r, protocol, NFT_DPORT, port);
	if (to != 0)
		nft_redirect(r, to);
	else
		nft_verdict(r, NF_ACCEPT);
	nft_rule_end(r);
}

static void door_rules(struct nft *r, const struct family *f, uint16_t tcp, uint16_t dns)
{
	port_rule(r, "door", f, IPPROTO_TCP, PORT_DNS, tcp);
	port_rule(r, "door", f, IPPROTO_UDP, PORT_DNS, dns);
	nft_rule(r, "door");
	nft_match_meta(r, NFT_META_NFPROTO, f->nfproto);
	nft_match_meta(r, NFT_META_L4PROTO, IPPROTO_TCP);
	nft_redirect(r, tcp);
	nft_rule_end(r);
}

static void neighbour_rules(struct nft *r, const char *chain)
{
	for (uint8_t type = ND_FIRST; type <= ND_LAST; type++) {
		nft_rule(r, chain);
		nft_match_meta(r, NFT_META_NFPROTO, NFPROTO_IPV6);
		nft_match_meta(r, NFT_META_L4PROTO, IPPROTO_ICMPV6);
		nft_load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof(type));
		nft_compare(r, NFT_CMP_EQ, &type, sizeof(type));
		nft_verdict(r, NF_ACCEPT);
		nft_rule_end(r);
	}
}

static void stranger_rules(struct nft *r)
{
	nft_rule(r, "strangers");
	nft_match_state(r, NFT_STATE_BIT(IP_CT_NEW));
	nft_match_over_limit(r, NEW_A_SECOND, NEW_AT_ONCE);
	nft_verdict(r, NF_DROP);
	nft_rule_end(r);
	neighbour_rules(r, "strangers");
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		const struct family *f = &families[i];

		nft_rule(r, "strangers");
		nft_match_meta(r, NFT_META_NFPROTO, f->nfproto);
		nft_load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr_offset, f->address_len);
		nft_compare(r, NFT_CMP_NEQ, f->gateway, f->address_len);
		nft_reject(r);
		nft_rule_end(r);
	}
}

static int install(const uint16_t ports[DOOR_SOCKETS], enum nft_start how, int *ret_fd)
{
	struct nft r = {0};

	nft_begin(&r, how);
	nft_chain(&r, "door", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST, NF_ACCEPT);
	nft_chain(&r, "strangers", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_FILTER, NF_ACCEPT);
	nft_chain(&r, "rest", "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER, NF_DROP);
	nft_chain(&r, "through", "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER, NF_DROP);
	stranger_rules(&r);
	neighbour_rules(&r, "rest");
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		const struct family *f = &families[i];

		if (ports[f->tcp] == 0)
			continue;
		door_rules(&r, f, ports[f->tcp], ports[f->dns]);
		port_rule(&r, "rest", f, IPPROTO_TCP, ports[f->tcp], 0);
		port_rule(&r, "rest", f, IPPROTO_UDP, ports[f->dns], 0);
	}
	return nft_send(&r, ret_fd);
}

int card_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd)
{
	int r = install(ports, NFT_FIRST, ret_fd);

	if (*ret_fd >= 0)
		(void)close(take_fd(ret_fd)); /* nothing was removed by it */
	return r == -EEXIST ? install(ports, NFT_INSTEAD, ret_fd) : r;
}
