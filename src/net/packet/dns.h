// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DNS messages, for a stub that stands between guests and a resolver and believes neither:
 *
 *	guest --> dns_query_parse() --> judged --> dns_query_write() --> resolver
 *	guest <-- dns_answer_write() <-- judged <-- dns_response_parse() <--
 *
 * A guest's bytes never reach the resolver: what is asked there is written anew from the canonical
 * name. Likewise of an answer only addresses pass. Types other than A and AAAA do not exist here
 * (HTTPS and SVCB records lead to other protocols, ports and encrypted names): their answer is that
 * the name has none.
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
 * DNS_NOERROR: *ret is a question to judge. Another rcode: it is to be answered with that. -EINVAL:
 * it is no query and gets no answer.
 */
must_check int dns_query_parse(const void *data, size_t len, struct dns_query *ret);
/*
 * Appends the answer to q: those of the addresses that are of the type it asks for. What does not
 * fit (the guest's UDP size, or DNS_TCP_MAX) leaves an answer that says so and has none.
 */
must_check int dns_answer_write(struct buf *out, const struct dns_query *q, enum dns_rcode rcode,
                                const struct address *addresses, size_t n, uint32_t ttl_s,
                                bool is_tcp);

/* What the resolver is asked. id must not be guessable. */
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
 * The answer to exactly this question: addresses of name, or of what its CNAMEs lead to within the
 * message. Anything else is -EINVAL and to be taken as if it had never come.
 */
must_check int dns_response_parse(const void *data, size_t len, uint16_t id,
                                  const struct hostname *name, enum dns_type type,
                                  struct dns_response *ret, const char **why);
