// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DNS messages, for a stub between guests and a resolver that trusts neither:
 *
 *	guest --> dns_query_parse() --> judged --> dns_query_write() --> resolver
 *	guest <-- dns_answer_write() <-- judged <-- dns_response_parse() <--
 *
 * A guest's bytes never reach the resolver: its query is written anew from the canonical name. Of
 * an answer, only the addresses are passed on. Only the types A and AAAA exist here, since HTTPS
 * and SVCB records lead to other protocols, ports and encrypted names: for other types the answer
 * is that the name has no such record.
 */
#include "base/buf.h"
#include "net/match/address.h"
#include "net/match/hostname.h"

#define DNS_UDP_MAX       1232 /* fits every path unfragmented */
#define DNS_TCP_MAX       65535
#define DNS_ADDRESSES_MAX 32
#define DNS_NAME_MAX      255 /* on the wire */

enum dns_type {
	DNS_A = 1,
	DNS_CNAME = 5,
	DNS_OPT = 41,
	DNS_AAAA = 28,
};

enum dns_rcode {
	DNS_NOERROR = 0, /* with no addresses: the name has none of this type */
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

/* What a guest asked. */
struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool wants_recursion;
	uint8_t question[DNS_NAME_MAX + 4]; /* as it came, capitals included: it is echoed */
	uint16_t question_len;              /* 0 where it could not be read */
	bool has_name;                      /* it is a host name */
	struct hostname name;
	uint16_t type;
	bool has_edns;
	uint16_t udp_size; /* that the guest takes, from 512 */
};

/*
 * DNS_NOERROR: *ret is a question to judge. Another rcode: the caller answers with it. -EINVAL: it
 * is not a query and gets no answer.
 */
must_check int dns_query_parse(const void *data, size_t len, struct dns_query *ret);
/*
 * Appends the answer to q, with the addresses of the type that it asks for. If they do not fit
 * (into the guest's UDP size or DNS_TCP_MAX), the answer is marked as truncated and has none.
 */
must_check int dns_answer_write(struct buf *out, const struct dns_query *q, enum dns_rcode rcode,
                                const struct address *addresses, size_t n, uint32_t ttl_s,
                                bool is_tcp);

/* Writes the query to the resolver. id must not be guessable. */
must_check int dns_query_write(struct buf *out, uint16_t id, const struct hostname *name,
                               enum dns_type type);

struct dns_response {
	enum dns_rcode rcode;
	bool is_truncated; /* ask again by TCP */
	struct address addresses[DNS_ADDRESSES_MAX];
	size_t n_addresses;
	uint32_t ttl_s; /* the least of all records that led there; 0 without addresses */
};

/*
 * Parses the answer to exactly this question: addresses of name, or of the name that its CNAMEs
 * lead to within the message. Anything else is -EINVAL, and the caller must ignore it.
 */
must_check int dns_response_parse(const void *data, size_t len, uint16_t id,
                                  const struct hostname *name, enum dns_type type,
                                  struct dns_response *ret, const char **why);
