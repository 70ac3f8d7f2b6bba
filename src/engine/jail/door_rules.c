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
 * Redirected packets have a loopback address by the time they come to `rest`. What is dropped there
 * fails with EPERM in the sender's call: all of it is UDP or stranger, since TCP was redirected.
 *
 * `inside` keeps the sandbox's own traffic out of connection tracking: it costs less, and the
 * kernel's memory for tracked flows is in nobody's memory limit. That is also what the limit on new
 * flows is for. A TCP connection over it is tried again by the kernel a second later. Who dials the
 * door's own port is tracked, so that the listener is told itself as the destination.
 *
 * Expressions are as in linux/netfilter/nf_tables.h. Register 1 is the only one used.
 */
#include "engine/jail/door_rules.h"

#include "engine/jail/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#define TABLE        "cloche"
#define NEW_A_SECOND 250
#define NEW_AT_ONCE  1000
#define PORT_DNS     53
#define OFFSET_SPORT 0 /* of TCP and of UDP */
#define OFFSET_DPORT 2
#define STATE_BIT(s) (1U << ((s) + 1)) /* of NFT_CT_STATE */

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

struct rules { /* being written */
	struct netlink_talk talk;
	struct nlmsghdr *nlh; /* of the rule */
	struct nlattr *list;  /* of its expressions */
};

static struct nlmsghdr *message(struct rules *r, uint16_t type, uint16_t flags)
{
	void *extra;
	struct nlmsghdr *nlh =
		netlink_message(&r->talk, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags,
	                        sizeof(struct nfgenmsg), &extra);

	*(struct nfgenmsg *)extra = (struct nfgenmsg){.nfgen_family = NFPROTO_INET};
	return nlh;
}

static void batch_mark(struct rules *r, uint16_t type)
{
	void *extra;

	(void)netlink_message(&r->talk, type, 0, sizeof(struct nfgenmsg), &extra);
	*(struct nfgenmsg *)extra = (struct nfgenmsg){.res_id = htons(NFNL_SUBSYS_NFTABLES)};
}

static void table(struct rules *r, uint16_t type, uint16_t flags)
{
	mnl_attr_put_strz(message(r, type, flags), NFTA_TABLE_NAME, TABLE);
}

static void chain(struct rules *r, const char *name, const char *type, int priority,
                  uint32_t verdict)
{
	struct nlmsghdr *nlh = message(r, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	struct nlattr *hook;

	mnl_attr_put_strz(nlh, NFTA_CHAIN_TABLE, TABLE);
	mnl_attr_put_strz(nlh, NFTA_CHAIN_NAME, name);
	mnl_attr_put_strz(nlh, NFTA_CHAIN_TYPE, type);
	mnl_attr_put_u32(nlh, NFTA_CHAIN_POLICY, htonl(verdict));
	hook = mnl_attr_nest_start(nlh, NFTA_CHAIN_HOOK);
	mnl_attr_put_u32(nlh, NFTA_HOOK_HOOKNUM, htonl(NF_INET_LOCAL_OUT));
	mnl_attr_put_u32(nlh, NFTA_HOOK_PRIORITY, htonl((uint32_t)priority));
	mnl_attr_nest_end(nlh, hook);
}

static void rule_begin(struct rules *r, const char *chain_name)
{
	r->nlh = message(r, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	mnl_attr_put_strz(r->nlh, NFTA_RULE_TABLE, TABLE);
	mnl_attr_put_strz(r->nlh, NFTA_RULE_CHAIN, chain_name);
	r->list = mnl_attr_nest_start(r->nlh, NFTA_RULE_EXPRESSIONS);
}

static void rule_end(struct rules *r)
{
	mnl_attr_nest_end(r->nlh, r->list);
}

/* An expression is {name, data {…}} in the list: both nests are closed by expression_end(). */
struct expression {
	struct nlattr *element, *data;
};

static struct expression expression_begin(struct rules *r, const char *name)
{
	struct expression e = {.element = mnl_attr_nest_start(r->nlh, NFTA_LIST_ELEM)};

	mnl_attr_put_strz(r->nlh, NFTA_EXPR_NAME, name);
	e.data = mnl_attr_nest_start(r->nlh, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct rules *r, struct expression e)
{
	mnl_attr_nest_end(r->nlh, e.data);
	mnl_attr_nest_end(r->nlh, e.element);
}

static void put_number(struct rules *r, uint16_t attr, uint32_t value)
{
	mnl_attr_put_u32(r->nlh, attr, htonl(value));
}

static void put_value(struct rules *r, uint16_t attr, const void *value, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(r->nlh, attr);

	mnl_attr_put(r->nlh, NFTA_DATA_VALUE, len, value);
	mnl_attr_nest_end(r->nlh, nest);
}

static void compare(struct rules *r, enum nft_cmp_ops op, const void *value, size_t len)
{
	struct expression e = expression_begin(r, "cmp");

	put_number(r, NFTA_CMP_SREG, NFT_REG_1);
	put_number(r, NFTA_CMP_OP, op);
	put_value(r, NFTA_CMP_DATA, value, len);
	expression_end(r, e);
}

static void match_meta(struct rules *r, enum nft_meta_keys key, uint8_t value)
{
	struct expression e = expression_begin(r, "meta");

	put_number(r, NFTA_META_DREG, NFT_REG_1);
	put_number(r, NFTA_META_KEY, key);
	expression_end(r, e);
	compare(r, NFT_CMP_EQ, &value, sizeof(value));
}

static void load_payload(struct rules *r, enum nft_payload_bases base, uint32_t offset,
                         uint32_t len)
{
	struct expression e = expression_begin(r, "payload");

	put_number(r, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_number(r, NFTA_PAYLOAD_BASE, base);
	put_number(r, NFTA_PAYLOAD_OFFSET, offset);
	put_number(r, NFTA_PAYLOAD_LEN, len);
	expression_end(r, e);
}

static void match_family(struct rules *r, const struct family *f)
{
	match_meta(r, NFT_META_NFPROTO, f->nfproto);
}

static void match_loopback(struct rules *r, const struct family *f, enum nft_cmp_ops op)
{
	load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->daddr_offset, f->loopback_len);
	compare(r, op, f->loopback, f->loopback_len);
}

static void match_port(struct rules *r, uint8_t protocol, uint32_t offset, uint16_t port)
{
	const uint16_t value = htons(port);

	match_meta(r, NFT_META_L4PROTO, protocol);
	load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, offset, sizeof(value));
	compare(r, NFT_CMP_EQ, &value, sizeof(value));
}

static void match_state(struct rules *r, uint32_t states)
{
	const uint32_t zero = 0;
	struct expression e = expression_begin(r, "ct");

	put_number(r, NFTA_CT_DREG, NFT_REG_1);
	put_number(r, NFTA_CT_KEY, NFT_CT_STATE);
	expression_end(r, e);
	e = expression_begin(r, "bitwise");
	put_number(r, NFTA_BITWISE_SREG, NFT_REG_1);
	put_number(r, NFTA_BITWISE_DREG, NFT_REG_1);
	put_number(r, NFTA_BITWISE_LEN, sizeof(states));
	put_value(r, NFTA_BITWISE_MASK, &states, sizeof(states));
	put_value(r, NFTA_BITWISE_XOR, &zero, sizeof(zero));
	expression_end(r, e);
	compare(r, NFT_CMP_NEQ, &zero, sizeof(zero));
}

static void match_over_limit(struct rules *r)
{
	struct expression e = expression_begin(r, "limit");

	mnl_attr_put_u64(r->nlh, NFTA_LIMIT_RATE, htobe64(NEW_A_SECOND));
	mnl_attr_put_u64(r->nlh, NFTA_LIMIT_UNIT, htobe64(1));
	put_number(r, NFTA_LIMIT_BURST, NEW_AT_ONCE);
	put_number(r, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	put_number(r, NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
	expression_end(r, e);
}

static void verdict(struct rules *r, uint32_t code)
{
	struct expression e = expression_begin(r, "immediate");
	struct nlattr *data, *nest;

	put_number(r, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = mnl_attr_nest_start(r->nlh, NFTA_IMMEDIATE_DATA);
	nest = mnl_attr_nest_start(r->nlh, NFTA_DATA_VERDICT);
	put_number(r, NFTA_VERDICT_CODE, code);
	mnl_attr_nest_end(r->nlh, nest);
	mnl_attr_nest_end(r->nlh, data);
	expression_end(r, e);
}

static void redirect(struct rules *r, uint16_t port)
{
	const uint16_t value = htons(port);
	struct expression e = expression_begin(r, "immediate");

	put_number(r, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_value(r, NFTA_IMMEDIATE_DATA, &value, sizeof(value));
	expression_end(r, e);
	e = expression_begin(r, "redir");
	put_number(r, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	put_number(r, NFTA_REDIR_FLAGS, NF_NAT_RANGE_PROTO_SPECIFIED);
	expression_end(r, e);
}

static void port_rule(struct rules *r, const char *chain_name, const struct family *f,
                      uint8_t protocol, uint32_t offset, uint16_t port, uint16_t to)
{
	rule_begin(r, chain_name);
	match_family(r, f);
	match_port(r, protocol, offset, port);
	if (to != 0)
		redirect(r, to);
	else
		verdict(r, NF_ACCEPT);
	rule_end(r);
}

static void inside_rules(struct rules *r, const struct family *f, uint16_t tcp, uint16_t dns)
{
	port_rule(r, "inside", f, IPPROTO_TCP, OFFSET_SPORT, tcp, 0);
	port_rule(r, "inside", f, IPPROTO_TCP, OFFSET_DPORT, tcp, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, OFFSET_SPORT, dns, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, OFFSET_DPORT, dns, 0);
	port_rule(r, "inside", f, IPPROTO_TCP, OFFSET_DPORT, PORT_DNS, 0);
	port_rule(r, "inside", f, IPPROTO_UDP, OFFSET_DPORT, PORT_DNS, 0);
	rule_begin(r, "inside");
	match_family(r, f);
	match_loopback(r, f, NFT_CMP_EQ);
	expression_end(r, expression_begin(r, "notrack"));
	rule_end(r);
}

static void door_rules(struct rules *r, const struct family *f, uint16_t tcp, uint16_t dns)
{
	port_rule(r, "door", f, IPPROTO_TCP, OFFSET_DPORT, PORT_DNS, tcp);
	port_rule(r, "door", f, IPPROTO_UDP, OFFSET_DPORT, PORT_DNS, dns);
	rule_begin(r, "door");
	match_family(r, f);
	match_loopback(r, f, NFT_CMP_NEQ);
	match_meta(r, NFT_META_L4PROTO, IPPROTO_TCP);
	redirect(r, tcp);
	rule_end(r);
}

static void rest_rules(struct rules *r)
{
	rule_begin(r, "rest");
	match_state(r, STATE_BIT(IP_CT_NEW));
	match_over_limit(r);
	verdict(r, NF_DROP);
	rule_end(r);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		rule_begin(r, "rest");
		match_family(r, &families[i]);
		match_loopback(r, &families[i], NFT_CMP_EQ);
		verdict(r, NF_ACCEPT);
		rule_end(r);
	}
	rule_begin(r, "rest");
	match_state(r, STATE_BIT(IP_CT_ESTABLISHED) | STATE_BIT(IP_CT_RELATED));
	verdict(r, NF_ACCEPT);
	rule_end(r);
}

/* Without one to delete a delete fails, so there is one. */
static void remove_table(struct rules *r)
{
	table(r, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	table(r, NFT_MSG_DELTABLE, 0);
}

/* Removing has its price (late.h), so a table is only removed where there is one. */
static int install(const uint16_t ports[DOOR_SOCKETS], bool is_first, int *ret_fd)
{
	struct rules r = {0};

	batch_mark(&r, NFNL_MSG_BATCH_BEGIN);
	if (!is_first)
		remove_table(&r);
	table(&r, NFT_MSG_NEWTABLE, NLM_F_CREATE | (is_first ? NLM_F_EXCL : 0));
	chain(&r, "inside", "filter", NF_IP_PRI_RAW, NF_ACCEPT);
	chain(&r, "door", "nat", NF_IP_PRI_NAT_DST, NF_ACCEPT);
	chain(&r, "rest", "filter", NF_IP_PRI_FILTER, NF_DROP);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		const struct family *f = &families[i];

		if (ports[f->tcp] == 0)
			continue;
		inside_rules(&r, f, ports[f->tcp], ports[f->dns]);
		door_rules(&r, f, ports[f->tcp], ports[f->dns]);
	}
	rest_rules(&r);
	netlink_want_answer(&r.talk);
	batch_mark(&r, NFNL_MSG_BATCH_END);
	return netlink_send_by(&r.talk, NETLINK_NETFILTER, ret_fd);
}

int door_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd)
{
	int r = install(ports, /* is_first= */ true, ret_fd);

	if (*ret_fd >= 0)
		(void)close(take_fd(ret_fd)); /* nothing was removed by it */
	return r == -EEXIST ? install(ports, /* is_first= */ false, ret_fd) : r;
}

int door_rules_remove(int *ret_fd)
{
	struct rules r = {0};

	batch_mark(&r, NFNL_MSG_BATCH_BEGIN);
	remove_table(&r);
	netlink_want_answer(&r.talk);
	batch_mark(&r, NFNL_MSG_BATCH_END);
	return netlink_send_by(&r.talk, NETLINK_NETFILTER, ret_fd);
}
