// SPDX-License-Identifier: Apache-2.0
/* Expressions are as in linux/netfilter/nf_tables.h. Register 1 is the only one used. */
#include "engine/linux/nft.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nfnetlink.h>

#define TABLE "cloche"

static struct nlmsghdr *message(struct nft *r, uint16_t type, uint16_t flags)
{
	void *extra;
	struct nlmsghdr *nlh =
		netlink_message(&r->talk, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags,
	                        sizeof(struct nfgenmsg), &extra);

	*(struct nfgenmsg *)extra = (struct nfgenmsg){.nfgen_family = NFPROTO_INET};
	return nlh;
}

static void batch_mark(struct nft *r, uint16_t type)
{
	void *extra;

	(void)netlink_message(&r->talk, type, 0, sizeof(struct nfgenmsg), &extra);
	*(struct nfgenmsg *)extra = (struct nfgenmsg){.res_id = htons(NFNL_SUBSYS_NFTABLES)};
}

static void table(struct nft *r, uint16_t type, uint16_t flags)
{
	mnl_attr_put_strz(message(r, type, flags), NFTA_TABLE_NAME, TABLE);
}

void nft_chain(struct nft *r, const char *name, const char *type, enum nf_inet_hooks where,
               int priority, uint32_t policy)
{
	struct nlmsghdr *nlh = message(r, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	struct nlattr *hook;

	mnl_attr_put_strz(nlh, NFTA_CHAIN_TABLE, TABLE);
	mnl_attr_put_strz(nlh, NFTA_CHAIN_NAME, name);
	mnl_attr_put_strz(nlh, NFTA_CHAIN_TYPE, type);
	mnl_attr_put_u32(nlh, NFTA_CHAIN_POLICY, htonl(policy));
	hook = mnl_attr_nest_start(nlh, NFTA_CHAIN_HOOK);
	mnl_attr_put_u32(nlh, NFTA_HOOK_HOOKNUM, htonl(where));
	mnl_attr_put_u32(nlh, NFTA_HOOK_PRIORITY, htonl((uint32_t)priority));
	mnl_attr_nest_end(nlh, hook);
}

void nft_rule(struct nft *r, const char *chain_name)
{
	r->nlh = message(r, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	mnl_attr_put_strz(r->nlh, NFTA_RULE_TABLE, TABLE);
	mnl_attr_put_strz(r->nlh, NFTA_RULE_CHAIN, chain_name);
	r->list = mnl_attr_nest_start(r->nlh, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct nft *r)
{
	mnl_attr_nest_end(r->nlh, r->list);
}

/* An expression is {name, data {…}} in the list; expression_end() closes both nests. */
struct expression {
	struct nlattr *element, *data;
};

static struct expression expression_begin(struct nft *r, const char *name)
{
	struct expression e = {.element = mnl_attr_nest_start(r->nlh, NFTA_LIST_ELEM)};

	mnl_attr_put_strz(r->nlh, NFTA_EXPR_NAME, name);
	e.data = mnl_attr_nest_start(r->nlh, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct nft *r, struct expression e)
{
	mnl_attr_nest_end(r->nlh, e.data);
	mnl_attr_nest_end(r->nlh, e.element);
}

static void put_number(struct nft *r, uint16_t attr, uint32_t value)
{
	mnl_attr_put_u32(r->nlh, attr, htonl(value));
}

static void put_value(struct nft *r, uint16_t attr, const void *value, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(r->nlh, attr);

	mnl_attr_put(r->nlh, NFTA_DATA_VALUE, len, value);
	mnl_attr_nest_end(r->nlh, nest);
}

void nft_compare(struct nft *r, enum nft_cmp_ops op, const void *value, size_t len)
{
	struct expression e = expression_begin(r, "cmp");

	put_number(r, NFTA_CMP_SREG, NFT_REG_1);
	put_number(r, NFTA_CMP_OP, op);
	put_value(r, NFTA_CMP_DATA, value, len);
	expression_end(r, e);
}

void nft_match_meta(struct nft *r, enum nft_meta_keys key, uint8_t value)
{
	struct expression e = expression_begin(r, "meta");

	put_number(r, NFTA_META_DREG, NFT_REG_1);
	put_number(r, NFTA_META_KEY, key);
	expression_end(r, e);
	nft_compare(r, NFT_CMP_EQ, &value, sizeof(value));
}

void nft_load_payload(struct nft *r, enum nft_payload_bases base, uint32_t offset, uint32_t len)
{
	struct expression e = expression_begin(r, "payload");

	put_number(r, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_number(r, NFTA_PAYLOAD_BASE, base);
	put_number(r, NFTA_PAYLOAD_OFFSET, offset);
	put_number(r, NFTA_PAYLOAD_LEN, len);
	expression_end(r, e);
}

void nft_match_port(struct nft *r, uint8_t protocol, uint32_t offset, uint16_t port)
{
	const uint16_t value = htons(port);

	nft_match_meta(r, NFT_META_L4PROTO, protocol);
	nft_load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, offset, sizeof(value));
	nft_compare(r, NFT_CMP_EQ, &value, sizeof(value));
}

void nft_match_state(struct nft *r, uint32_t states)
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
	nft_compare(r, NFT_CMP_NEQ, &zero, sizeof(zero));
}

void nft_match_over_limit(struct nft *r, uint64_t a_second, uint32_t at_once)
{
	struct expression e = expression_begin(r, "limit");

	mnl_attr_put_u64(r->nlh, NFTA_LIMIT_RATE, htobe64(a_second));
	mnl_attr_put_u64(r->nlh, NFTA_LIMIT_UNIT, htobe64(1));
	put_number(r, NFTA_LIMIT_BURST, at_once);
	put_number(r, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	put_number(r, NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
	expression_end(r, e);
}

void nft_verdict(struct nft *r, uint32_t code)
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

void nft_redirect(struct nft *r, uint16_t port)
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

void nft_notrack(struct nft *r)
{
	expression_end(r, expression_begin(r, "notrack"));
}

void nft_reject(struct nft *r)
{
	const uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
	struct expression e = expression_begin(r, "reject");

	put_number(r, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	mnl_attr_put(r->nlh, NFTA_REJECT_ICMP_CODE, sizeof(code), &code);
	expression_end(r, e);
}

/* A delete fails if there is no table, so one is made first. */
void nft_begin(struct nft *r, enum nft_start how)
{
	batch_mark(r, NFNL_MSG_BATCH_BEGIN);
	if (how != NFT_FIRST) {
		table(r, NFT_MSG_NEWTABLE, NLM_F_CREATE);
		table(r, NFT_MSG_DELTABLE, 0);
	}
	if (how != NFT_NOTHING)
		table(r, NFT_MSG_NEWTABLE, NLM_F_CREATE | (how == NFT_FIRST ? NLM_F_EXCL : 0));
}

int nft_send(struct nft *r, int *ret_fd)
{
	netlink_want_answer(&r->talk);
	batch_mark(r, NFNL_MSG_BATCH_END);
	return netlink_send_by(&r->talk, NETLINK_NETFILTER, ret_fd);
}
