// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Writes the one nftables table `cloche` (family inet) of the net namespace that this thread is in.
 * It is sent as one batch, so no packet ever meets half of its rules. For each rule: begin it, add
 * its matches and then its action, and end it.
 */
#include "engine/linux/netlink.h"

#include <netinet/in.h> /* before the kernel's own, which then makes room */

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>

#define NFT_STATE_BIT(s) (1U << ((s) + 1)) /* of enum ip_conntrack_info, for nft_match_state() */
#define NFT_SPORT        0                 /* where a port is in TCP's header, and in UDP's */
#define NFT_DPORT        2

struct nft { /* being written */
	struct netlink_talk talk;
	struct nlmsghdr *nlh; /* of the rule */
	struct nlattr *list;  /* of its expressions */
};

enum nft_start {
	NFT_FIRST,   /* there is no table yet: -EEXIST if there is */
	NFT_INSTEAD, /* replaces a table, if there is one */
	NFT_NOTHING, /* instead of it */
};

void nft_begin(struct nft *r, enum nft_start how);
void nft_chain(struct nft *r, const char *name, const char *type, enum nf_inet_hooks where,
               int priority, uint32_t policy);
void nft_rule(struct nft *r, const char *chain_name);
void nft_rule_end(struct nft *r);
/* *ret_fd is a socket that is better closed later (deferred_close.h), or -1; also on failure. */
must_check int nft_send(struct nft *r, int *ret_fd);

void nft_load_payload(struct nft *r, enum nft_payload_bases base, uint32_t offset, uint32_t len);
void nft_compare(struct nft *r, enum nft_cmp_ops op, const void *value, size_t len);
void nft_match_meta(struct nft *r, enum nft_meta_keys key, uint8_t value);
void nft_match_port(struct nft *r, uint8_t protocol, uint32_t offset, uint16_t port);
void nft_match_state(struct nft *r, uint32_t states);
void nft_match_over_limit(struct nft *r, uint64_t a_second, uint32_t at_once);
void nft_verdict(struct nft *r, uint32_t code);
void nft_redirect(struct nft *r, uint16_t port);
void nft_notrack(struct nft *r);
void nft_reject(struct nft *r); /* and say so, as a firewall would */
